import { readFileSync } from "node:fs"
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js"
import { repository } from "../support/plantTree.ts"

interface Described {
  readonly content?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, unknown>>
}

interface Operation {
  readonly operationId: string
  readonly requestBody?: Described
  readonly parameters: ReadonlyArray<{ readonly name: string; readonly in: string; readonly required?: boolean }>
  readonly responses: Readonly<Record<string, Described>>
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

const document = JSON.parse(readFileSync(`${repository}/docs/openapi.json`, "utf8")) as Document

/** Headers of HTTP itself, which no description of an API lists. */
const usual = new Set([
  "cache-control",
  "connection",
  "content-length",
  "content-security-policy",
  "content-type",
  "date",
  "keep-alive",
  "referrer-policy",
  "transfer-encoding",
  "x-content-type-options",
])

const ajv = new Ajv2020({ strict: false, validateFormats: false })
ajv.addSchema(document, "api")

const pointer = (...parts: ReadonlyArray<string>): string =>
  `api#/${parts.map((part) => encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))).join("/")}`

/** An operation as the document describes it. */
export class DescribedOperation {
  readonly method: string
  readonly path: string
  readonly #operation: Operation
  readonly #checks = new Map<string, ValidateFunction>()

  constructor(method: string, path: string) {
    const operation = document.paths[path]?.[method.toLowerCase()]
    if (operation === undefined) throw new Error(`no operation ${method} ${path}`)
    this.method = method
    this.path = path
    this.#operation = operation
  }

  get id(): string {
    return this.#operation.operationId
  }

  #check(...parts: ReadonlyArray<string>): ValidateFunction {
    const $ref = pointer("paths", this.path, this.method.toLowerCase(), ...parts)
    const check = this.#checks.get($ref) ?? ajv.compile({ $ref })
    this.#checks.set($ref, check)
    return check
  }

  /** Whether a value fits the body that the document describes. */
  accepts(body: unknown): boolean {
    return this.#check("requestBody", "content", "application/json", "schema")(body)
  }

  /** Whether the headers that the document describes are there and fit. Names in lower case. */
  acceptsHeaders(headers: Readonly<Record<string, string>>): boolean {
    return this.#operation.parameters.every((parameter, index) => {
      if (parameter.in !== "header") return true
      const value = headers[parameter.name.toLowerCase()]
      return value === undefined ? parameter.required !== true : this.#check("parameters", `${index}`, "schema")(value)
    })
  }

  /** Returns in which way a response differs from the document; `undefined` if in none. */
  differenceOf({ body, headers, status }: Response): string | undefined {
    const described = this.#operation.responses[status]
    if (described === undefined) return `the status ${status} is not described`
    const names = new Set(Object.keys(described.headers ?? {}).map((name) => name.toLowerCase()))
    const other = Object.keys(headers).find((name) => !usual.has(name) && !names.has(name))
    if (other !== undefined) return `the header ${other} of ${status} is not described`
    // A response to HEAD has the headers of the content that it leaves out.
    if (this.method === "HEAD") return undefined
    const type = headers["content-type"]?.split(";")[0]
    if (type === undefined) return described.content === undefined ? undefined : `${status} has no content`
    if (described.content?.[type] === undefined) return `the content ${type} of ${status} is not described`
    if (type !== "application/json") return undefined
    const check = this.#check("responses", `${status}`, "content", type, "schema")
    return check(JSON.parse(body)) ? undefined : `the body of ${status}: ${ajv.errorsText(check.errors)}`
  }
}

export interface Response {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Every operation below `/v1`. */
export const operations = Object.entries(document.paths).flatMap(([path, item]) =>
  path.startsWith("/v1/") ? Object.keys(item).map((method) => new DescribedOperation(method.toUpperCase(), path)) : [],
)
