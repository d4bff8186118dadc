"""The rules that recognize secrets, as data.

Each rule names the token format that a service documents. No rule guesses by entropy: on real
transcripts, such rules of well-known scanners were wrong in nearly every hit. A text is looked at
only if it holds one of the rule's keywords. Where the pattern has a group `secret`, only that group
is masked. Every rule has an example that it masks and a similar text that it leaves alone; a test
tries both. The examples are invented.
"""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """One kind of secret."""

    name: str  # as in [redacted:name]
    keywords: tuple[str, ...]  # literal texts; at least one of them is in every match
    pattern: str  # a regular expression of Python
    example: str  # is masked
    counter_example: str  # is not masked
    reach: int = 0  # characters around a keyword that are looked at; 0: all of the text


# A token begins and ends where no letter, digit or underscore is beside it.
_BEGIN = r"(?<![A-Za-z0-9_])"
_END = r"(?![A-Za-z0-9_])"
_A32 = "Zx9Qw3Er7Ty1Ui5Op2As4Df6Gh8Jk0Lm"  # 32 letters and digits for the examples
_H32 = "9f2c4e6a8b0d1f3e5a7c9b1d3f5e7a90"  # 32 hexadecimal digits


def _token(name: str, prefix: str, rest: str, example: str, counter: str = "") -> Rule:
    """A rule for a token with a literal prefix."""
    import re

    pattern = f"{_BEGIN}{re.escape(prefix)}{rest}{_END}"
    return Rule(name, (prefix,), pattern, example, counter or f"{prefix}...")


_PEM_NAME = r"(?:[A-Z0-9]{2,12} ){0,4}PRIVATE KEY(?: BLOCK)?"

RULES: tuple[Rule, ...] = (
    # -- models ---------------------------------------------------------------------------------
    _token(
        "anthropic-key",
        "sk-ant-",
        r"[a-z]{3,10}\d{2}-[A-Za-z0-9_-]{24,200}",
        f"sk-ant-api03-{_A32}{_A32}-{_A32}AA",
        "sk-ant-api03-your-key",
    ),
    Rule(
        "openai-key",
        ("sk-proj-", "sk-svcacct-", "sk-admin-", "T3BlbkFJ"),
        _BEGIN + r"sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,220}|[A-Za-z0-9]{20}T3BlbkFJ"
        r"[A-Za-z0-9]{20})" + _END,
        f"sk-proj-{_A32}{_A32}",
        "sk-proj-your-project-key-goes-here",
    ),
    _token("openrouter-key", "sk-or-v1-", "[0-9a-f]{64}", f"sk-or-v1-{_H32}{_H32}"),
    _token("huggingface-token", "hf_", "[A-Za-z]{34,40}", "hf_" + "aBcDeFgHiJ" * 3 + "kLmN"),
    _token("replicate-token", "r8_", "[A-Za-z0-9]{37,40}", f"r8_{_A32}abcde"),
    _token("groq-key", "gsk_", "[A-Za-z0-9]{48,60}", f"gsk_{_A32}{_A32[:20]}"),
    _token("perplexity-key", "pplx-", "[A-Za-z0-9]{44,60}", f"pplx-{_A32}{_A32[:16]}"),
    _token("xai-key", "xai-", "[A-Za-z0-9]{70,90}", f"xai-{_A32}{_A32}{_A32[:16]}"),
    # -- clouds ---------------------------------------------------------------------------------
    Rule(
        "aws-access-key-id",
        ("AKIA", "ASIA"),
        _BEGIN + r"A[KS]IA[A-Z2-7]{16}" + _END,
        "AKIA2E4MPLQ3RS5TUVW7",
        "AKIAEXAMPLE",
    ),
    Rule(
        "aws-secret-key",
        ("secret_access_key", "SECRET_ACCESS_KEY", "SecretAccessKey", "secretAccessKey"),
        r"(?i:secret_?access_?key)[\"'\\\s]{0,6}[=:][\"'\\\s]{0,6}"
        r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        f"aws_secret_access_key = {_A32}/+abCD12",
        "aws_secret_access_key = <your secret key goes right here, please>",
    ),
    _token("google-api-key", "AIza", "[A-Za-z0-9_-]{35}", f"AIza{_A32}-_a"),
    _token("google-client-secret", "GOCSPX-", "[A-Za-z0-9_-]{28}", f"GOCSPX-{_A32[:28]}"),
    _token("google-access-token", "ya29.", r"[A-Za-z0-9_.-]{40,500}", f"ya29.{_A32}{_A32}"),
    Rule(
        "azure-storage-key",
        ("AccountKey=",),
        r"AccountKey=(?P<secret>[A-Za-z0-9+/]{86}==)",
        f"AccountKey={_A32}{_A32}{_A32[:22]}==;EndpointSuffix=core.windows.net",
        "AccountKey=<key>;EndpointSuffix=core.windows.net",
    ),
    Rule(
        "azure-client-secret",
        ("Q~",),
        r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~.-])",
        f"aB.8Q~{_A32[:31]}abc",
        "FAQ~ see below",
    ),
    _token("databricks-token", "dapi", "[0-9a-f]{32}(?:-[0-9])?", f"dapi{_H32}", "dapi_version=2"),
    Rule(
        "digitalocean-token",
        ("dop_v1_", "doo_v1_", "dor_v1_"),
        _BEGIN + r"do[opr]_v1_[0-9a-f]{64}" + _END,
        f"dop_v1_{_H32}{_H32}",
        "dop_v1_token",
    ),
    _token("heroku-key", "HRKU-", r"[A-Za-z0-9_-]{36,64}", f"HRKU-{_A32}-AbCdEf"),
    Rule(
        "fly-token",
        ("FlyV1 fm", "fo1_"),
        _BEGIN + r"(?:FlyV1 fm\d+_[A-Za-z0-9+/=,_-]{80,2000}|fo1_[A-Za-z0-9_-]{43})" + _END,
        f"fo1_{_A32}AbCdEfGhIjK",
        "fo1_x",
    ),
    _token("netlify-token", "nfp_", "[A-Za-z0-9]{36}", f"nfp_{_A32}abcd"),
    Rule(
        "supabase-key",
        ("sbp_", "sb_secret_"),
        _BEGIN + r"(?:sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{31})" + _END,
        f"sbp_{_H32}12345678",
        "sb_secret_key",
    ),
    Rule(
        "planetscale-token",
        ("pscale_tkn_", "pscale_pw_", "pscale_oauth_"),
        _BEGIN + r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,64}" + _END,
        f"pscale_pw_{_A32}",
        "pscale_pw_short",
    ),
    Rule(
        "vault-token",
        ("hvs.", "hvb.", "hvr."),
        _BEGIN + r"hv[sbr]\.[A-Za-z0-9_-]{24,300}" + _END,
        f"hvs.{_A32}",
        "hvs.get(key)",
    ),
    Rule(
        "terraform-token",
        (".atlasv1.",),
        _BEGIN + r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,80}" + _END,
        f"{_A32[:14]}.atlasv1.{_A32}{_A32}",
        "x.atlasv1.y",
    ),
    Rule(
        "doppler-token",
        ("dp.pt.", "dp.st.", "dp.sa.", "dp.ct.", "dp.scim.", "dp.audit."),
        _BEGIN
        + r"dp\.(?:pt|st|sa|ct|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"
        + _END,
        f"dp.pt.{_A32}abcdefgh1234",
        "dp.st.mean",
    ),
    # -- forges and packages --------------------------------------------------------------------
    Rule(
        "github-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        _BEGIN + r"gh[pousr]_[A-Za-z0-9]{36,251}" + _END,
        f"ghp_{_A32}abcd",
        "ghp_xxxx",
    ),
    _token(
        "github-fine-grained-token",
        "github_pat_",
        "[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
        f"github_pat_{_A32[:22]}_{_A32}{_A32[:27]}",
    ),
    Rule(
        "gitlab-token",
        ("glpat-", "gldt-", "glptt-", "glrt-", "glcbt-", "glft-", "glsoat-", "glagent-", "gloas-"),
        _BEGIN + r"gl(?:pat|dt|ptt|rt|cbt|ft|soat|agent|oas)-[A-Za-z0-9_.-]{20,64}" + _END,
        "glpat-aBcD1234eFgH5678iJkL",
        "glpat-your-token",
    ),
    _token("atlassian-token", "ATATT3", "[A-Za-z0-9_=-]{150,300}", "ATATT3" + _A32 * 5 + "=1A2B"),
    _token("npm-token", "npm_", "[A-Za-z0-9]{36}", f"npm_{_A32}abcd", "npm_config_registry"),
    _token("pypi-token", "pypi-AgE", "[A-Za-z0-9_-]{50,500}", f"pypi-AgEIcHlwaS5vcmc{_A32}{_A32}"),
    _token("rubygems-key", "rubygems_", "[0-9a-f]{48}", f"rubygems_{_H32}{_H32[:16]}"),
    _token("docker-token", "dckr_pat_", "[A-Za-z0-9_-]{27,40}", f"dckr_pat_{_A32[:27]}"),
    # -- chat, mail, payment, work --------------------------------------------------------------
    Rule(
        "slack-token",
        ("xoxb-", "xoxp-", "xoxa-", "xoxe-", "xoxe.", "xoxo-", "xoxr-", "xoxs-", "xapp-"),
        _BEGIN + r"(?:xox[abeoprs][-.][0-9A-Za-z.-]{20,260}|xapp-\d-[0-9A-Za-z-]{30,200})" + _END,
        f"xoxb-123456789012-1234567890123-{_A32[:24]}",
        "xoxb-your-token",
    ),
    Rule(
        "slack-webhook",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{40,80})",
        f"https://hooks.slack.com/services/T0A1B2C3D/B0A1B2C3D4E/{_A32[:24]}",
        "https://hooks.slack.com/services/...",
    ),
    Rule(
        "discord-webhook",
        ("/api/webhooks/",),
        r"discord(?:app)?\.com/api/webhooks/(?P<secret>\d{15,21}/[A-Za-z0-9_-]{60,80})",
        f"https://discord.com/api/webhooks/123456789012345678/{_A32}{_A32}ab",
        "https://discord.com/api/webhooks/<id>/<token>",
    ),
    Rule(
        "telegram-bot-token",
        (":AA",),
        r"(?<![A-Za-z0-9_])\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])",
        f"123456789:AA{_A32}a",
        "00:11:AA:22",
    ),
    _token(
        "sendgrid-key",
        "SG.",
        r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
        f"SG.{_A32[:22]}.{_A32}abcdefghijk",
    ),
    _token("mailgun-key", "key-", "[0-9a-f]{32}", f"key-{_H32}", "key-value"),
    Rule(
        "stripe-key",
        ("sk_live_", "rk_live_", "sk_test_", "rk_test_"),
        _BEGIN + r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,247}" + _END,
        f"sk_live_{_A32[:24]}",
        "sk_test_key",
    ),
    _token("stripe-webhook-secret", "whsec_", "[A-Za-z0-9+/=]{32,64}", f"whsec_{_A32}"),
    Rule(
        "square-token",
        ("sq0atp-", "sq0csp-"),
        _BEGIN + r"sq0(?:atp-[A-Za-z0-9_-]{22}|csp-[A-Za-z0-9_-]{43})" + _END,
        f"sq0atp-{_A32[:22]}",
        "sq0atp-x",
    ),
    Rule(
        "shopify-token",
        ("shpat_", "shpca_", "shppa_", "shpss_"),
        _BEGIN + r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}" + _END,
        f"shpat_{_H32}",
        "shpat_token",
    ),
    _token("linear-key", "lin_api_", "[A-Za-z0-9]{40}", f"lin_api_{_A32}abcdefgh"),
    _token("notion-token", "ntn_", "[0-9]{11}[A-Za-z0-9]{35}", f"ntn_12345678901{_A32}abc"),
    Rule(
        "sentry-token",
        ("sntrys_", "sntryu_"),
        _BEGIN + r"sntry(?:s_eyJ[A-Za-z0-9+/=_-]{40,500}|u_[0-9a-f]{64})",
        f"sntryu_{_H32}{_H32}",
        "sntryu_x",
    ),
    Rule(
        "grafana-token",
        ("glsa_", "glc_eyJ"),
        _BEGIN + r"(?:glsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|glc_eyJ[A-Za-z0-9+/=_-]{30,500})",
        f"glsa_{_A32}_9f2c4e6a",
        "glsa_x",
    ),
    _token("newrelic-key", "NRAK-", "[A-Z0-9]{27}", "NRAK-0AB1CD2EF3GH4IJ5KL6MN7OP8QR"),
    _token("postman-key", "PMAK-", "[0-9a-f]{24}-[0-9a-f]{34}", f"PMAK-{_H32[:24]}-{_H32}ab"),
    _token("figma-token", "figd_", "[A-Za-z0-9_-]{40,60}", f"figd_{_A32}abcdefgh"),
    # -- of no one service ----------------------------------------------------------------------
    _token(
        "age-key",
        "AGE-SECRET-KEY-1",
        "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}",
        "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" + "QPZRY9X8GF2TVDW0S3JN54KHCE",
    ),
    Rule(
        "jwt",
        ("eyJ",),
        _BEGIN + r"eyJ[A-Za-z0-9_-]{14,8000}\.eyJ[A-Za-z0-9_-]{14,16000}\.[A-Za-z0-9_-]{20,2000}",
        f"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{_A32}abcdefghijk",
        "eyJhbGciOiJIUzI1NiJ9",
    ),
    Rule(
        "private-key",
        ("PRIVATE KEY",),
        # To its end; or, if that is missing, as long as lines of base64 follow. Line numbers,
        # arrows and escaped newlines may be between them, as in what a tool shows of a file.
        rf"-----BEGIN {_PEM_NAME}-----(?P<secret>(?:(?!-----)[\s\S]){{20,20000}}?)"
        rf"-----END {_PEM_NAME}-----"
        rf"|-----BEGIN {_PEM_NAME}-----(?P<secret_2>(?:(?:\\+[nrt]|[\s\d\u2192|>+-]){{1,24}}"
        r"[A-Za-z0-9+/=]{16,100}){1,400})",
        f"-----BEGIN RSA PRIVATE KEY-----\n{_A32}{_A32}\n{_A32}==\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    ),
    Rule(
        "url-password",
        ("://",),
        r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'<>{}$\\]{0,80}:"
        r"(?P<secret>(?![*x.]+@)[^\s/:@\"'<>{}$\\]{3,120})@(?=[A-Za-z0-9\[])",
        "postgresql://tide:m00n-and-tide@db.example:5432/tides",
        "postgresql://user:${PASSWORD}@host/db",
    ),
    Rule(
        "authorization-header",
        ("uthorization", "UTHORIZATION"),
        r"(?i:authorization)[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4}"
        r"(?i:bearer|basic|token)\s+(?P<secret>(?=[A-Za-z._~+/=-]{0,300}\d)[A-Za-z0-9._~+/=-]{16,4000})",
        f"Authorization: Bearer {_A32}",
        "Authorization: Bearer YOUR_API_TOKEN_GOES_HERE",
    ),
)
