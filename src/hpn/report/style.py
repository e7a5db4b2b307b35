"""Style sheet and script of the page."""

from __future__ import annotations

import base64
import hashlib

from hpn.report.theme import DARK, FONT, svg_css

_PAGE = """
:root{color-scheme:light dark;--ground:#f5f7f9;--card:#fff;--ink:#16202c;--muted:#5b6776;
--rule:#e1e6ec;--soft:#f0f3f6;--accent:#0b5fa5}
@dark{:root{--ground:#0e1318;--card:#161c24;--ink:#e6ebf1;--muted:#9aa7b5;--rule:#2c3641;
--soft:#1d252f;--accent:#7cc0f5}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 @font}
.page{max-width:1140px;margin:0 auto;padding:48px 24px 64px}
h1,h2,h3,h4{line-height:1.2;margin:0;text-wrap:balance;overflow-wrap:anywhere}
h1{font-size:clamp(1.7rem,1.2rem + 2.2vw,2.5rem);letter-spacing:-.02em;font-weight:680}
h2{font-size:1.45rem;letter-spacing:-.012em;font-weight:650}
h3{font-size:1.1rem;font-weight:630}
p{margin:0}
a{color:var(--accent);text-decoration:none}
a:hover{text-decoration:underline}
a:focus-visible,button:focus-visible,.scroll:focus-visible{outline:2px solid var(--accent);
outline-offset:2px}
.over{color:var(--accent);font-size:.8rem;font-weight:650;letter-spacing:.09em;
text-transform:uppercase;margin-bottom:10px}
.lead{color:var(--muted);margin-top:12px;font-size:1.06rem;max-width:66ch}
section{margin-top:56px}
section>.note{margin-top:8px}
.note{color:var(--muted);font-size:.87rem;max-width:84ch}
.card{background:var(--card);border:1px solid var(--rule);border-radius:12px}
.scroll{overflow-x:auto;max-width:100%}
.num{text-align:right;white-space:nowrap}
table{border-collapse:collapse;font-size:.87rem;font-variant-numeric:tabular-nums;width:100%}
th,td{padding:9px 8px;text-align:left;vertical-align:baseline;border-top:1px solid var(--rule)}
thead th{border-top:0;color:var(--muted);font-weight:550;font-size:.78rem;line-height:1.3;
vertical-align:bottom}
th.num{text-align:right}
thead small{display:block;font-size:.72rem;font-weight:400}
small{font-size:.78rem;color:var(--muted)}
.sum{margin-top:18px}
.sum th:first-child{padding-left:18px}
.sum td:last-child,.sum thead th:last-child{padding-right:18px}
.sum th:first-child:not(.set){position:sticky;left:0;background:var(--card)}
.sum tbody th[scope=row]{font-weight:600;
min-width:10.4rem;max-width:15rem;overflow-wrap:anywhere}
.sum tbody th small{display:block;font-weight:400}
.sum .set{background:var(--soft);font-weight:400;color:var(--muted);padding-top:7px;
padding-bottom:7px;font-size:.82rem}
.sum .set span{position:sticky;left:18px;display:inline-block;max-width:min(62rem,82vw)}
.sum .set b{color:var(--ink);font-weight:630;overflow-wrap:anywhere}
.sum .best{font-weight:680}
.sum .proto{line-height:1.35;font-size:.8rem}
.sum+.note{margin-top:12px}
.chips{display:flex;flex-wrap:wrap;gap:6px;margin:14px 0 10px;padding:0;list-style:none}
.chips li{border:1px solid var(--rule);background:var(--card);border-radius:99px;
padding:2px 12px;font-size:.83rem;overflow-wrap:anywhere}
.key{display:flex;flex-wrap:wrap;gap:4px 22px;list-style:none;margin:22px 0 14px;padding:0;
font-size:.9rem}
.key li{display:flex;align-items:center;gap:8px;min-width:0;overflow-wrap:anywhere}
.key svg{flex:none}
.grid{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px;grid-auto-flow:dense}
figure{margin:0;padding:18px 18px 12px;min-width:0}
figcaption{font-weight:620;font-size:.97rem;line-height:1.35;margin-bottom:8px}
figcaption span{display:block;color:var(--muted);font-weight:400;font-size:.84rem}
.wide{grid-column:1/-1}
figure svg{display:block}
.fill svg{width:100%;height:auto;max-width:520px;margin:0 auto}
.wide .scroll svg{min-width:min(100%,760px);height:auto}
.bars{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(300px,100%),1fr));
gap:4px 24px}
.bars svg{width:100%;height:auto;max-width:400px}
.two .fill svg{max-width:max-content;margin:0}
.run{margin-top:16px;padding:22px 24px 24px}
.run>header{display:flex;flex-wrap:wrap;align-items:center;gap:4px 12px;margin-bottom:14px}
.run>header svg{flex:none}
.run>header p{color:var(--muted);font-size:.9rem;margin-left:auto;
font-variant-numeric:tabular-nums}
.run>header b{color:var(--ink);font-weight:650}
.two{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:20px 36px;align-items:start}
.two.tall{grid-template-columns:minmax(0,1.35fr) minmax(0,1fr)}
.two figure{padding:0}
h4{font-size:.97rem;font-weight:620;line-height:1.35}
h4 span{display:block;color:var(--muted);font-weight:400;font-size:.84rem;line-height:1.35}
.tasks{max-height:430px;overflow:auto;margin-top:6px}
.tall .tasks{max-height:660px}
.tasks table{font-size:.84rem}
.tasks th,.tasks td{padding:7px 8px}
.tasks thead th{position:sticky;top:0;background:var(--card);box-shadow:0 1px var(--rule)}
.tasks tbody th{font-weight:400;color:var(--muted)}
.tasks td:nth-child(2){overflow-wrap:anywhere;min-width:7rem}
.tasks th:first-child{padding-left:0}
.study{margin-top:32px}
.study .note{margin:6px 0 14px}
.views{margin-top:22px}
.views figure{padding:0}
.views .fill svg{margin:0}
.again{position:relative;margin-top:22px}
pre{margin:6px 0 0;padding:13px 84px 13px 16px;background:var(--soft);border-radius:8px;
white-space:pre-wrap;overflow-wrap:anywhere;
font:.84rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace}
.again button{position:absolute;right:8px;bottom:8px;font:600 .76rem/1 @font;padding:7px 11px;
border-radius:6px;border:1px solid var(--rule);background:var(--card);color:var(--ink);
cursor:pointer}
.again button:hover{border-color:var(--accent);color:var(--accent)}
.facts{display:grid;grid-template-columns:auto minmax(0,1fr);gap:4px 18px;margin:16px 0 0;
font-size:.84rem}
.facts dt,.terms dt{color:var(--muted)}
.facts dd,.terms dd{margin:0;overflow-wrap:anywhere}
.terms{display:grid;grid-template-columns:auto minmax(0,1fr);gap:8px 22px;margin:16px 0 0;
font-size:.87rem;padding:20px 24px}
.terms dt{font-weight:600;color:var(--ink)}
.terms dd{color:var(--muted);max-width:78ch}
@media (max-width:820px){.grid,.two,.two.tall{grid-template-columns:minmax(0,1fr)}}
@media (max-width:560px){
.page{padding:28px 14px 40px}section{margin-top:42px}
figure{padding:14px 10px 8px}.run{padding:18px 14px}.run>header p{margin-left:0;flex-basis:100%}
.tasks{max-height:560px}.tasks table{font-size:.78rem}.tasks th,.tasks td{padding:7px 5px}
.tasks td:nth-child(2){min-width:6.4rem}
.fill .hpn{font-size:14px}.fill .small{font-size:13px}
.terms{padding:16px 14px;grid-template-columns:minmax(0,1fr);gap:2px}.terms dd{margin-bottom:10px}
.sum th:first-child:not(.set){min-width:6.5rem;max-width:8rem;box-shadow:1px 0 var(--rule)}
.sum th:first-child{padding-left:12px}.sum .set span{left:12px}}
@media print{
@page{margin:13mm}
body{background:#fff;font-size:10.5pt}.page{max-width:none;padding:0}
section{margin-top:26pt}h2,h3,h4,figcaption{break-after:avoid}
figure,.again,.facts,.note,tr,.run>header{break-inside:avoid}
.scroll,.tasks{overflow:visible;max-height:none!important}
figure svg{max-width:100%;height:auto}.again button{display:none}
.sum table{font-size:7.2pt}.sum th,.sum td{padding:3pt!important}
.sum thead th,.sum thead small,.sum small,.sum .proto{font-size:6.4pt}
.sum th:first-child:not(.set){min-width:0;position:static}.tasks thead th{position:static}
.grid{grid-template-columns:repeat(2,minmax(0,1fr))}
.two:not(.tall){grid-template-columns:minmax(0,1fr) minmax(0,1.25fr);gap:14pt}
.tasks table{font-size:7.6pt}.tasks th,.tasks td{padding:3pt!important}
.chips,.key,section>.note,.study>.note,.run>header{break-after:avoid}
.views .fill svg{max-width:330px}
a{color:inherit}}
"""

SCRIPT = """
for (const block of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(block);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
  block.parentNode.append(button);
}
"""


def page_css() -> str:
    """Style sheet of the page and of the drawings in it."""
    page = _PAGE.replace("@dark", DARK).replace("@font", FONT)
    return page.strip() + "\n" + svg_css()


def content_policy(css: str | None = None, script: str = SCRIPT) -> str:
    """Content security policy: the page loads nothing, and runs and wears nothing but its own."""
    style, script = _digest(page_css() if css is None else css), _digest(script)
    return f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'"


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
