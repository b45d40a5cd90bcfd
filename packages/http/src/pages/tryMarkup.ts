/** The page to try the service: its markup. Works without a mouse, and reads in order. */
export const tryMarkup = `
<header>
  <h1><svg viewBox="0 0 24 24" aria-hidden="true"><path d="M12 2c2 4 6 6 6 11a6 6 0 0 1-12 0c0-2 1-3.500 2-4.500 0 2 1 3 2 3.500 0-4 1-7 2-10z"/></svg>kiln</h1>
  <p>Create a job, watch it, play what comes out. <a href="docs">Reference</a> · <a href="openapi.json">openapi.json</a></p>
</header>
<main>
  <form id="form" autocomplete="off">
    <label for="key">API key</label>
    <input id="key" type="password" required spellcheck="false" placeholder="kiln_test_…" aria-describedby="key-help">
    <p class="help" id="key-help">Stays in this page's memory and goes nowhere but to the service. Test keys cost nothing.</p>

    <fieldset>
      <legend>Kind of job</legend>
      <div class="kinds">
        <label><input type="radio" name="kind" value="speech" checked><span>Speech</span></label>
        <label><input type="radio" name="kind" value="transcription"><span>Transcription</span></label>
        <label><input type="radio" name="kind" value="turn"><span>Voice turn</span></label>
        <label><input type="radio" name="kind" value="image"><span>Image</span></label>
      </div>
    </fieldset>

    <div data-for="speech">
      <label for="input">Text to speak</label>
      <textarea id="input" rows="4">Hello! This was a text a moment ago.</textarea>
    </div>
    <div data-for="transcription turn">
      <label for="file">Audio file</label>
      <input id="file" type="file" accept=".mp3,.mp4,.m4a,.wav,.webm,audio/*">
      <p class="help">mp3, mp4, m4a, wav or webm; up to 25 MB and 15 minutes.</p>
    </div>
    <div data-for="turn">
      <label for="instructions">Instructions for the reply <span class="optional">optional</span></label>
      <textarea id="instructions" rows="2" placeholder="Answer in one short sentence."></textarea>
      <label for="tokens">Longest reply, in tokens</label>
      <input id="tokens" type="number" min="1" max="1024" value="256">
    </div>
    <div data-for="speech turn">
      <label for="voice">Voice <span class="optional">optional</span></label>
      <select id="voice"><option value="">the default one</option></select>
    </div>
    <div data-for="image">
      <label for="prompt">What to draw</label>
      <textarea id="prompt" rows="4">A lighthouse in the fog, at dawn</textarea>
    </div>
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
