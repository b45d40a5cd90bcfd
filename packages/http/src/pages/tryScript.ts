/** The script of the try page, in plain JavaScript for browsers. It uses only the public API. */
export const tryScript = String.raw`
"use strict"
const at = (id) => document.getElementById(id)
const kindNow = () => document.querySelector("input[name=kind]:checked").value
const pause = (ms) => new Promise((done) => setTimeout(done, ms))
const kinds = JSON.parse(document.body.dataset.kinds)
let current

const showFields = () => {
  for (const block of document.querySelectorAll("[data-for]")) {
    block.hidden = block.dataset.for !== kindNow()
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
  // A relative URL, because the service may be mounted below a path.
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

const upload = async (file) => {
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

const readers = {
  string: (field) => field.value,
  number: (field) => Number(field.value),
  boolean: (field) => field.value === "true",
  json: (field) => JSON.parse(field.value),
}

const requestOf = async (kind) => {
  const request = {}
  for (const field of document.querySelectorAll("[data-field]")) {
    if (field.closest("[data-for]").dataset.for !== kind.name) continue
    const { field: name, type } = field.dataset
    if (type === "upload") request[name] = await upload(field.files[0])
    else if (field.value.trim() !== "") request[name] = readers[type](field)
  }
  return request
}

const poll = async (path) => {
  for (;;) {
    const job = await send("GET", path)
    say("Job " + job.status + (job.error_code ? ": " + job.error_code : ""), job.status === "done" ? "good" : job.status === "failed" ? "bad" : "")
    if (job.status === "done" || job.status === "failed") return job
    await pause(2000)
  }
}

const showFile = async (name, url) => {
  const response = await fetch(url, { method: "HEAD" })
  const [type] = (response.headers.get("content-type") || "").split("/")
  if (type === "audio") return Object.assign(document.createElement("audio"), { controls: true, src: url })
  if (type === "image") return Object.assign(document.createElement("img"), { src: url, alt: "The generated file " + name })
  return Object.assign(document.createElement("a"), { href: url, textContent: name })
}

const show = async (output) => {
  for (const [name, value] of Object.entries(output)) {
    if (name.endsWith("_url")) at("output").append(await showFile(name.slice(0, -4), value))
    else at("output").append(
      Object.assign(document.createElement("p"), { textContent: name, className: "help" }),
      Object.assign(document.createElement("blockquote"), { textContent: typeof value === "string" ? value : JSON.stringify(value, null, 2) }),
    )
  }
}

at("form").addEventListener("submit", async (event) => {
  event.preventDefault()
  at("create").disabled = true
  at("erase").hidden = true
  at("output").replaceChildren()
  say("Creating …")
  try {
    const kind = kinds.find(({ name }) => name === kindNow())
    const created = await send("POST", kind.path, await requestOf(kind))
    current = kind.poll + created.id
    const job = await poll(current)
    if (job.output) await show(job.output)
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
