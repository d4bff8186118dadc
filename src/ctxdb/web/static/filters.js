// Apply a filter as soon as it is chosen, and keep empty ones out of the URL.
"use strict";
for (const form of document.querySelectorAll("form[data-filters]")) {
  const field = (name) => form.elements.namedItem(name);
  const send = () => { if (form.reportValidity()) form.requestSubmit(); };
  form.addEventListener("change", (event) => {
    const name = event.target.name;
    if (name === "period") {
      if (!event.target.value) return; // the two days are given next
      field("from").value = "";
      field("to").value = "";
    }
    if (name === "from" || name === "to") {
      field("period").value = "";
      if (!field("from").value || !field("to").value) return;
    }
    if (event.target.tagName === "SELECT" || event.target.type === "date" || event.target.type === "checkbox") send();
  });
  form.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData.entries()]) {
      if (value === "") event.formData.delete(name);
    }
  });
}
