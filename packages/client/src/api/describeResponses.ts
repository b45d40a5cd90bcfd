import { forGenerators } from "./forGenerators.ts"

/**
 * Adds to a generated OpenAPI document what applies to many responses. Headers are described once, in the components, and each
 * response refers to those it has.
 */

type Json = Record<string, unknown>
const asObject = (value: unknown): Json => (typeof value === "object" && value !== null ? (value as Json) : {})
const entriesOf = (value: unknown): ReadonlyArray<[string, Json]> =>
  Object.entries(asObject(value)).map(([key, inner]) => [key, asObject(inner)])

const text = { type: "string" }
const whole = { type: "integer", minimum: 0 }
const headers = {
  "X-Request-Id": { description: "Identifies the request, also in errors and in the service's log.", schema: text },
  "RateLimit-Policy": {
    description: "The rate limit that applies (IETF draft).",
    schema: text,
    example: '"read";q=3000;w=60',
  },
  RateLimit: {
    description: "The remaining requests under the limit (IETF draft).",
    schema: text,
    example: '"read";r=299;t=1',
  },
  "WWW-Authenticate": { description: "The problem with the credentials (RFC 6750).", schema: text },
  "Retry-After": { description: "Seconds to wait before the next request.", schema: whole, example: 2 },
  Location: {
    description:
      "Absolute URL to poll, or to download the file from; for a reused idempotency key, of the job that has it.",
    schema: { type: "string", format: "uri" },
  },
  Link: {
    description: 'Of a failed job that was retried: the job with the newest retry, as `<URL>; rel="latest-version"`.',
    schema: text,
  },
  "Idempotency-Replayed": {
    description: "`true` if the request was a repeat: the job is the one that the first request created.",
    schema: { type: "string", enum: ["true"] },
  },
  "Preference-Applied": {
    description: "Present if the preference `wait` was applied, with its seconds (RFC 7240).",
    schema: text,
    example: "wait=20",
  },
  Vary: { description: "`prefer`, if the request has the preference `wait`.", schema: text },
  "X-Should-Retry": { description: "`false` if repeating the request after a pause does not help.", schema: text },
  "Access-Control-Allow-Origin": { description: "Always `*`: the signature is the authorization.", schema: text },
  "Access-Control-Expose-Headers": { description: "The headers that a page of another origin may read.", schema: text },
  "Accept-Ranges": { description: "Always `bytes`.", schema: text },
  "Content-Disposition": { description: "The suggested file name.", schema: text },
  "Content-Range": { description: "The range in the response and the size of the whole file.", schema: text },
} satisfies Readonly<Record<string, Json>>
const headerNames = Object.keys(headers)

const references = (names: ReadonlyArray<string>): Json =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))

const crossOrigin = ["Access-Control-Allow-Origin", "Access-Control-Expose-Headers"]

const headersOf = (status: string, isAuthenticated: boolean, isSigned: boolean): ReadonlyArray<string> => [
  "X-Request-Id",
  ...(isSigned ? crossOrigin : []),
  ...(isAuthenticated && status !== "401" ? ["RateLimit-Policy", "RateLimit"] : []),
  ...(isAuthenticated && ["401", "403"].includes(status) ? ["WWW-Authenticate"] : []),
  ...(["409", "429", "503"].includes(status) ? ["Retry-After"] : []),
  ...(["409", "429"].includes(status) ? ["X-Should-Retry"] : []),
  ...(status === "416" ? ["Accept-Ranges", "Content-Range"] : []),
  // Only a reused idempotency key has this status where a key is needed.
  ...(isAuthenticated && status === "422" ? ["Location"] : []),
]

const successes: Readonly<Record<string, string>> = {
  "200": "The request succeeded.",
  "201": "Created.",
  "202": "Accepted. Poll `Location`.",
  "204": "The request succeeded. The response has no body.",
}

/** The codes a response may carry, read from the bodies it names. */
const codesOf = (response: Json, schemas: Json): ReadonlyArray<string> => {
  const bodies = [...JSON.stringify(response["content"] ?? {}).matchAll(/#\/components\/schemas\/([A-Za-z]+)/g)]
  return bodies.flatMap(([, name = ""]) => {
    const code = /"code":\{"type":"string","enum":\["([a-z_]+)"\]/.exec(JSON.stringify(asObject(schemas[name])))?.[1]
    return code === undefined ? [] : [`\`${code}\``]
  })
}

const describeResponse = (
  status: string,
  response: Json,
  schemas: Json,
  isAuthenticated: boolean,
  isSigned: boolean,
): Json => {
  const codes = codesOf(response, schemas)
  const declared = Object.keys(asObject(response["headers"])).map(
    (name) => headerNames.find((known) => known.toLowerCase() === name.toLowerCase()) ?? name,
  )
  return {
    ...response,
    description: successes[status] ?? (codes.length > 0 ? codes.join(", ") : response["description"]),
    headers: references([...new Set([...declared, ...headersOf(status, isAuthenticated, isSigned)])]),
  }
}

const fileHeaders = ["X-Request-Id", ...crossOrigin, "Accept-Ranges", "Content-Disposition"]

const describeHead = (operation: Json): Json => {
  const responses = asObject(operation["responses"])
  const all = { ...asObject(responses["200"]), headers: references(fileHeaders) }
  return { ...operation, responses: { ...responses, "200": all } }
}

/** Describes range requests of a file and the redirect to the blob store. */
const describeFile = (operation: Json): Json => {
  const responses = asObject(operation["responses"])
  const all = { ...asObject(responses["200"]), description: "The whole file." }
  const part = { ...all, description: "The requested range of the file." }
  return {
    ...operation,
    parameters: [
      ...(operation["parameters"] as ReadonlyArray<unknown>),
      {
        name: "Range",
        in: "header",
        required: false,
        schema: text,
        description: "A single byte range.",
        example: "bytes=0-1",
      },
    ],
    responses: {
      ...responses,
      "200": { ...all, headers: references(fileHeaders) },
      "206": { ...part, headers: references([...fileHeaders, "Content-Range"]) },
      "302": {
        description:
          "The file is at `Location`, in the blob store, for at most as long as this URL is valid. Only some services redirect.",
        headers: references(["X-Request-Id", ...crossOrigin, "Location"]),
      },
    },
  }
}

/** The wait of polls. Not a header of the endpoint, because clients need not send it, and any value is accepted. */
const prefer = {
  name: "Prefer",
  in: "header",
  required: false,
  schema: text,
  description:
    "`wait=<seconds>` holds the response until the job has ended or the time is over, at most 30 s (RFC 7240). Other preferences have no effect.",
  example: "wait=20",
}

/** One pair of outer quotes is no part of the key. Schemas of headers describe their encoded form, which has no rules. */
const idempotencyKey = String.raw`^(?:[!#-~][!-~]{0,254}|"(?:[!-~]{0,253}[!#-~])?|"[!-~]{1,255}")$`

/** A parameter has its description itself, where generators and linters look for it. */
const describeParameter = (parameter: Json): Json => {
  const { description, ...schema } = asObject(parameter["schema"])
  const described = { ...parameter, ...(description !== undefined && { description }), schema }
  return parameter["name"] === "idempotency-key"
    ? { ...described, name: "Idempotency-Key", schema: { ...schema, pattern: idempotencyKey } }
    : described
}

const describeOperation = (operation: Json, schemas: Json): Json => {
  const security = operation["security"]
  const isAuthenticated = Array.isArray(security) && security.length > 0
  // The signed URLs, which pages of every origin may use.
  const isSigned = String(operation["operationId"]).endsWith("File")
  const responses = entriesOf(operation["responses"]).map(
    ([status, response]) => [status, describeResponse(status, response, schemas, isAuthenticated, isSigned)] as const,
  )
  const parameters = (operation["parameters"] as ReadonlyArray<Json>).map(describeParameter)
  const described = { ...operation, parameters, responses: Object.fromEntries(responses) }
  if (/^poll[A-Z]/.test(String(operation["operationId"]))) return { ...described, parameters: [...parameters, prefer] }
  if (operation["operationId"] === "headFile") return describeHead(described)
  return operation["operationId"] === "getFile" ? describeFile(described) : described
}

/** Returns the document with the parts that many responses share, and with definitions instead of empty schemas. */
export const describeResponses = (generated: Json, definitions: Readonly<Record<string, object>>): Json => {
  const { components: given, ...rest } = generated
  const known = asObject(given)
  const spec = asObject(
    forGenerators({ ...rest, components: { ...known, schemas: { ...asObject(known["schemas"]), ...definitions } } }),
  )
  const components = asObject(spec["components"])
  const paths = entriesOf(spec["paths"]).map(([path, item]) => [
    path,
    Object.fromEntries(
      entriesOf(item).map(([method, operation]) => [
        method,
        describeOperation(operation, asObject(components["schemas"])),
      ]),
    ),
  ])
  return {
    ...spec,
    info: { ...asObject(spec["info"]), contact: { name: "The operator of this service" } },
    paths: Object.fromEntries(paths),
    tags: (spec["tags"] as ReadonlyArray<Json>).toSorted((one, other) =>
      String(one["name"]) < String(other["name"]) ? -1 : 1,
    ),
    components: { ...components, headers },
  }
}
