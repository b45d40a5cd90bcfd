/** The page to try the service: what it does. Plain JavaScript for browsers; it uses the public API and nothing else. */
export const tryScript = String.raw`
"use strict"
const at = (id) => document.getElementById(id)
const kindNow = () => document.querySelector("input[name=kind]:checked").value
const pause = (ms) => new Promise((done) => setTimeout(done, ms))
let current

for (const name of JSON.parse(document.body.dataset.voices)) at("voice").add(new Option(name))

const showFields = () => {
  for (const block of document.querySelectorAll("[data-for]")) {
    block.hidden = !block.dataset.for.split(" ").includes(kindNow())
    for (const field of block.querySelectorAll("input, textarea, select")) field.disabled = block.hidden
  }
}
for (const radio of document.querySelectorAll("input[name=kind]")) radio.addEventListener("change", showFields)
showFields()

const say = (text, tone) => {
  at("status").replaceChildren(Object.assign(document.createElement("b"), { textContent: text, className: tone || "" }))
}

const log = (title, body) => {
  const item = document.createElement("li")
  item.append(Object.assign(document.createElement("code"), { textContent: title }))
  if (body) item.append(Object.assign(document.createElement("pre"), { textContent: body }))
  at("log").prepend(item)
}

const send = async (method, path, body) => {
  const headers = { Authorization: "Bearer " + at("key").value.trim() }
  if (body) headers["Content-Type"] = "application/json"
  if (body && path !== "/v1/audio/uploads") headers["Idempotency-Key"] = newKey()
  // Relative: the service may live below a path.
  const response = await fetch(path.slice(1), { method, headers, body: body && JSON.stringify(body) })
  const text = await response.text()
  const answer = text ? JSON.parse(text) : undefined
  log(method + " " + path + " → " + response.status, answer && JSON.stringify(answer, null, 2))
  if (!response.ok) throw new Error(answer ? answer.error.message : "HTTP " + response.status)
  return answer
}

const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")

const secondsOf = (file) => new Promise((done) => {
  const audio = new Audio()
  const finish = (seconds) => { URL.revokeObjectURL(audio.src); done(Number.isFinite(seconds) && seconds > 0 ? Math.min(seconds, 900) : 60) }
  audio.onloadedmetadata = () => finish(audio.duration)
  audio.onerror = () => finish(NaN)
  audio.preload = "metadata"
  audio.src = URL.createObjectURL(file)
})

const upload = async () => {
  const file = at("file").files[0]
  if (!file) throw new Error("Choose an audio file first.")
  const format = file.name.toLowerCase().split(".").pop()
  const announced = await send("POST", "/v1/audio/uploads", { format, declared_seconds: await secondsOf(file) })
  say("Sending the file …")
  const response = await fetch(announced.upload_url, { method: "PUT", headers: { "Content-Type": "audio/" + format }, body: file })
  const text = await response.text()
  log("PUT upload_url → " + response.status, text)
  if (!response.ok) throw new Error(JSON.parse(text).error.message)
  return announced.id
}

const voice = () => (at("voice").value ? { voice: at("voice").value } : {})
const kinds = {
  speech: async () => send("POST", "/v1/audio/speech", { input: at("input").value, ...voice() }),
  transcription: async () => send("POST", "/v1/audio/transcriptions", { upload_id: await upload() }),
  turn: async () => send("POST", "/v1/voice/turns", {
    upload_id: await upload(),
    max_output_tokens: Number(at("tokens").value),
    ...(at("instructions").value.trim() && { instructions: at("instructions").value }),
    ...voice(),
  }),
  image: async () => send("POST", "/v1/images/generations", { prompt: at("prompt").value }),
}

const poll = async (path) => {
  for (;;) {
    const job = await send("GET", path)
    say("Job " + job.status + (job.error_code ? ": " + job.error_code : ""), job.status === "done" ? "good" : job.status === "failed" ? "bad" : "")
    if (job.status === "done" || job.status === "failed") return job
    await pause(2000)
  }
}

const show = (output) => {
  const text = output.transcript ?? output.text
  if (text !== undefined) at("output").append(Object.assign(document.createElement("blockquote"), { textContent: text }))
  if (output.audio_url) at("output").append(Object.assign(document.createElement("audio"), { controls: true, src: output.audio_url }))
  if (output.image_url) at("output").append(Object.assign(document.createElement("img"), { src: output.image_url, alt: "The generated image: " + at("prompt").value, width: 1024, height: 1024 }))
}

at("form").addEventListener("submit", async (event) => {
  event.preventDefault()
  at("create").disabled = true
  at("erase").hidden = true
  at("output").replaceChildren()
  say("Creating …")
  try {
    const kind = kindNow()
    const created = await kinds[kind]()
    current = (kind === "image" ? "/v1/images/jobs/" : "/v1/jobs/") + created.id
    const job = await poll(current)
    if (job.output) show(job.output)
    at("erase").hidden = false
  } catch (error) {
    say(error.message, "bad")
  }
  at("create").disabled = false
})

at("erase").addEventListener("click", async () => {
  try {
    await send("DELETE", current + "/data")
    at("output").replaceChildren()
    at("erase").hidden = true
    say("Its data is deleted.", "good")
  } catch (error) {
    say(error.message, "bad")
  }
})
`
