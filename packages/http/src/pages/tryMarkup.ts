import type { OfferedKind, OfferedKinds } from "../handlers/offerKinds.ts"
import { escapeHtml } from "./htmlPage.ts"
import { humanName, kindForm } from "./tryForm.ts"

const kindChoice = ({ kind }: OfferedKind, isFirst: boolean): string =>
  `<label><input type="radio" name="kind" value="${escapeHtml(kind.name)}"${isFirst ? " checked" : ""}><span>${escapeHtml(humanName(kind.name))}</span></label>`

/** The data of each kind for the page's script: where its jobs are created and polled. */
export const tryKinds = (offers: OfferedKinds) =>
  [...offers.values()].map(({ family, kind, route }) => ({
    name: kind.name,
    path: route.path,
    poll: family.poll.slice(0, -":id".length),
  }))

/**
 * The markup of the try page, with a form for each kind built from `components`, the schemas of the OpenAPI document. Works
 * without a mouse and reads in order.
 */
export const tryMarkup = (offers: OfferedKinds, components: Readonly<Record<string, unknown>>): string => {
  const offered = [...offers.values()]
  // A kind that needs no file can be tried immediately.
  const first = offered.find(({ route }) => route.upload === undefined) ?? offered[0]
  return `
<header>
  <h1><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 2c2 4 6 6 6 11a6 6 0 0 1-12 0c0-2 1-3.500 2-4.500 0 2 1 3 2 3.500 0-4 1-7 2-10z"/></svg>kiln</h1>
  <p>Create a job, watch it, and play the result. <a href="docs">Reference</a> · <a href="openapi.json">openapi.json</a></p>
</header>
<main>
  <form id="form" autocomplete="off">
    <label for="key">API key</label>
    <input id="key" type="password" required spellcheck="false" placeholder="kiln_test_…" aria-describedby="key-help">
    <p class="help" id="key-help">Stays in this page's memory and goes nowhere but to the service. Test keys cost nothing.</p>

    <fieldset>
      <legend>Kind of job</legend>
      <div class="kinds">
        ${offered.map((one) => kindChoice(one, one === first)).join("\n        ")}
      </div>
    </fieldset>

    ${offered.map((one) => kindForm(one, components)).join("\n    ")}
    <button type="submit" id="create">Create job</button>
  </form>

  <section aria-labelledby="result-title">
    <h2 id="result-title">Job</h2>
    <p id="status" role="status" aria-live="polite">None yet.</p>
    <div id="output"></div>
    <button type="button" id="erase" hidden>Delete its data</button>
    <h2>Requests</h2>
    <ol id="log" aria-label="Requests sent by this page, newest first"></ol>
  </section>
</main>
`
}
