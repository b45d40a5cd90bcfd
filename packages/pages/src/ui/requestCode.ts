import type { Json } from "./schema.ts"

export const languages = ["curl", "TypeScript", "Python"] as const
export type Language = (typeof languages)[number]

/** A request as code shows it. */
export interface SampleRequest {
  readonly url: string
  readonly method: string
  readonly path: string
  readonly body?: Json | undefined
  /** Path of the polling endpoint without the identifier, for requests that create jobs. */
  readonly poll?: string | undefined
  /** The file to send first, and the field that its identifier goes into. */
  readonly upload?:
    | { readonly field: string; readonly file: string; readonly format: string; readonly seconds: number }
    | undefined
  /** False for signed URLs and health checks. */
  readonly needsKey?: boolean
}

const mediaType = (format: string): string => (format === "mp3" ? "audio/mpeg" : `audio/${format}`)

const json = (value: unknown, indent: string): string => JSON.stringify(value, null, 2).replaceAll("\n", `\n${indent}`)

/** A text in single quotes for a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** JSON with one value left open for code: the identifier of the upload. */
const withUpload = (body: Json, field: string, code: string): string =>
  JSON.stringify({ ...body, [field]: "\u0000" }, null, 2).replace('"\\u0000"', () => code)

/** Takes a text out of the response to the announced upload: with `sed`, which every system has. */
const fromUpload = (field: string): string => `$(echo "$upload" | sed 's/.*"${field}":"\\([^"]*\\)".*/\\1/')`

const curl = ({ body, method, needsKey = true, path, poll, upload, url }: SampleRequest): string => {
  const key = needsKey ? [`-H "Authorization: Bearer $KILN_API_KEY"`] : []
  const call = (lines: ReadonlyArray<string>): string => lines.join(" \\\n  ")
  const parts: Array<string> = []
  if (upload !== undefined) {
    const announced = JSON.stringify({ format: upload.format, declared_seconds: upload.seconds })
    parts.push(
      `upload=$(${call([`curl -s ${url}/v1/audio/uploads`, ...key, `-H "Content-Type: application/json"`, `-d ${quoted(announced)}`])})`,
      call([
        `curl -T ${quoted(upload.file)} "${fromUpload("upload_url")}"`,
        `-H "Content-Type: ${mediaType(upload.format)}"`,
      ]),
    )
  }
  const text = body === undefined ? [] : [`-d ${dataOf(body, upload?.field)}`]
  parts.push(
    call([
      `curl ${method === "GET" || (method === "POST" && body !== undefined) ? "" : `-X ${method} `}${url}${path}`,
      ...key,
      ...(poll === undefined ? [] : [`-H "Idempotency-Key: $(date +%s)"`]),
      ...(body === undefined ? [] : [`-H "Content-Type: application/json"`]),
      ...text,
    ]),
  )
  if (poll !== undefined) parts.push(call([`curl ${url}${poll}JOB_ID`, ...key]))
  return parts.join("\n\n")
}

/** A body for a shell, in which the field of the upload gets its identifier. */
const dataOf = (body: Json, uploadField: string | undefined): string =>
  uploadField === undefined
    ? quoted(JSON.stringify(body))
    : quoted(JSON.stringify({ ...body, [uploadField]: "\u0000" })).replace("\\u0000", () => `'"${fromUpload("id")}"'`)

const typeScript = ({ body, method, needsKey = true, path, poll, upload, url }: SampleRequest): string => {
  const auth = needsKey ? "Authorization: `Bearer ${process.env.KILN_API_KEY}`" : undefined
  const type = `"Content-Type": "application/json"`
  const headers = (more: ReadonlyArray<string | undefined>): string =>
    `{ ${more.filter((one) => one !== undefined).join(", ")} }`
  const send = (name: string, at: string, sent: string, how: string, more: ReadonlyArray<string>): string =>
    `const ${name} = await fetch(\`${at}\`, {\n  method: "${how}",\n  headers: ${headers([auth, ...more])},${sent === "" ? "" : `\n  body: ${sent},`}\n})`
  const parts: Array<string> = []
  if (upload !== undefined) {
    const announced = json({ format: upload.format, declared_seconds: upload.seconds }, "  ")
    parts.push(
      `import { openAsBlob } from "node:fs"`,
      `const url = "${url}"`,
      `${send("announced", "${url}/v1/audio/uploads", `JSON.stringify(${announced})`, "POST", [type])}\nconst { id, upload_url } = await announced.json()`,
      `await fetch(upload_url, {\n  method: "PUT",\n  headers: { "Content-Type": "${mediaType(upload.format)}" },\n  body: await openAsBlob(${JSON.stringify(upload.file)}),\n})`,
    )
  } else parts.push(`const url = "${url}"`)
  const text =
    body === undefined
      ? ""
      : `JSON.stringify(${upload === undefined ? json(body, "  ") : withUpload(body, upload.field, "id").replaceAll("\n", "\n  ")})`
  const more = [...(poll === undefined ? [] : [`"Idempotency-Key": crypto.randomUUID()`]), ...(body ? [type] : [])]
  const last = send("response", `\${url}${path}`, text, method, more)
  if (poll === undefined) parts.push(`${last}\nconsole.log(response.status, await response.text())`)
  else
    parts.push(
      `${last}\nlet job = await response.json()`,
      `const { id: jobId } = job\nwhile (job.status !== "done" && job.status !== "failed") {\n  await new Promise((resolve) => setTimeout(resolve, 2_000))\n  const polled = await fetch(\`\${url}${poll}\${jobId}\`, { headers: ${headers([auth])} })\n  job = await polled.json()\n}\nconsole.log(job.output ?? job.error_code)`,
    )
  return parts.join("\n\n")
}

/** JSON as a Python literal. */
const literal = (value: unknown): string =>
  JSON.stringify(value, null, 4).replaceAll(
    /"(?:[^"\\]|\\.)*"|\btrue\b|\bfalse\b|\bnull\b/g,
    (part) => ({ true: "True", false: "False", null: "None" })[part] ?? part,
  )

const python = ({ body, method, needsKey = true, path, poll, upload, url }: SampleRequest): string => {
  const imports = [
    ...(needsKey ? ["import os"] : []),
    ...(poll === undefined ? [] : ["import time", "import uuid"]),
    ...(needsKey || poll !== undefined ? [""] : []),
    "import requests",
  ]
  const parts = [imports.join("\n")]
  const setup = [`url = "${url}"`]
  if (needsKey) setup.push(`auth = {"Authorization": f"Bearer {os.environ['KILN_API_KEY']}"}`)
  parts.push(setup.join("\n"))
  if (upload !== undefined)
    parts.push(
      `upload = requests.post(\n    f"{url}/v1/audio/uploads",\n    headers=auth,\n    json={"format": "${upload.format}", "declared_seconds": ${upload.seconds}},\n).json()`,
      `with open(${JSON.stringify(upload.file)}, "rb") as file:\n    requests.put(\n        upload["upload_url"],\n        headers={"Content-Type": "${mediaType(upload.format)}"},\n        data=file,\n    ).raise_for_status()`,
    )
  const text =
    body === undefined
      ? []
      : [
          `json=${(upload === undefined ? literal(body) : literal({ ...body, [upload.field]: "\u0000" }).replace('"\\u0000"', 'upload["id"]')).replaceAll("\n", "\n    ")},`,
        ]
  const headers = !needsKey
    ? []
    : [poll === undefined ? "headers=auth," : `headers={**auth, "Idempotency-Key": str(uuid.uuid4())},`]
  const at = path.includes("{") ? path.replace("{id}", "ID") : path
  const call = `requests.${method.toLowerCase()}(\n    ${[`f"{url}${at}",`, ...headers, ...text].join("\n    ")}\n)`
  if (poll === undefined) parts.push(`response = ${call}\nprint(response.status_code, response.text)`)
  else
    parts.push(
      `job = ${call}.json()`,
      `job_id = job["id"]\nwhile job["status"] not in ("done", "failed"):\n    time.sleep(2)\n    job = requests.get(f"{url}${poll}{job_id}", headers=auth).json()\nprint(job.get("output") or job["error_code"])`,
    )
  return parts.join("\n\n")
}

const writers: Readonly<Record<Language, (request: SampleRequest) => string>> = {
  curl,
  TypeScript: typeScript,
  Python: python,
}

/** Writes a request as a program in a language. */
export const requestCode = (language: Language, request: SampleRequest): string => writers[language](request)
