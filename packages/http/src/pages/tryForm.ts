import type { OfferedKind } from "../handlers/offerKinds.ts"
import { escapeHtml } from "./htmlPage.ts"

type Json = Readonly<Record<string, unknown>>
const asObject = (value: unknown): Json => (typeof value === "object" && value !== null ? (value as Json) : {})

const asArray = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** Resolves a reference, and keeps the keywords beside it. */
const resolved = (schema: Json, components: Json): Json => {
  const reference = schema["$ref"]
  if (typeof reference !== "string") return schema
  const { $ref: _, ...beside } = schema
  return { ...asObject(components[reference.slice(reference.lastIndexOf("/") + 1)]), ...beside }
}

/** `max_output_tokens` → `Max output tokens`. */
export const humanName = (name: string): string => {
  const words = name.replaceAll("_", " ")
  return words.charAt(0).toUpperCase() + words.slice(1)
}

const attributes = (values: Readonly<Record<string, string | number | undefined>>): string =>
  Object.entries(values)
    .flatMap(([name, value]) => (value === undefined ? [] : ` ${name}="${escapeHtml(String(value))}"`))
    .join("")

const asNumber = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined)

/** Height of required and optional text fields, in lines. */
const lines = { required: 4, optional: 2 }

const options = (names: ReadonlyArray<unknown>, isRequired: boolean): string =>
  [...(isRequired ? [] : [`<option value="">default</option>`]), ...names.map(optionOf)].join("")
const optionOf = (value: unknown): string => `<option>${escapeHtml(String(value))}</option>`

/** One field of a request. Its script reads `data-field`, the name on the wire, and `data-type`. */
const control = (id: string, name: string, schema: Json, isRequired: boolean, example: unknown): string => {
  const { enum: allowed, maximum, minimum, type } = schema
  const shown = typeof example === "string" || example === undefined ? example : JSON.stringify(example)
  const common = { id, "data-field": name }
  const given = isRequired ? { value: shown } : { placeholder: shown }
  if (Array.isArray(allowed))
    return `<select${attributes({ ...common, "data-type": typeof allowed[0] })}>${options(allowed, isRequired)}</select>`
  if (type === "boolean")
    return `<select${attributes({ ...common, "data-type": "boolean" })}>${options([true, false], isRequired)}</select>`
  if (type === "integer" || type === "number") {
    const bounds = { min: asNumber(minimum), max: asNumber(maximum), step: type === "integer" ? 1 : "any" }
    return `<input${attributes({ ...common, type: "number", "data-type": "number", ...bounds, ...given })}>`
  }
  const isText = type === "string"
  const rows = isText && isRequired ? lines.required : lines.optional
  const text = isRequired && shown !== undefined ? escapeHtml(shown) : ""
  const placeholder = isRequired ? undefined : shown
  return `<textarea${attributes({ ...common, rows, "data-type": isText ? "string" : "json", placeholder })}>${text}</textarea>`
}

const uploadControl = (id: string, name: string): string =>
  `<label for="${id}">Audio file</label>
      <input id="${id}" type="file" data-field="${escapeHtml(name)}" data-type="upload" accept=".mp3,.mp4,.m4a,.wav,.webm,audio/*">
      <p class="help">mp3, mp4, m4a, wav or webm; up to 25 MiB and 15 minutes.</p>`

/** Builds the part of the form that creates jobs of a kind, from the JSON Schema of its requests. */
export const kindForm = ({ kind, route }: OfferedKind, components: Json): string => {
  const schema = asObject(components[`Create${route.noun}`])
  const required = asArray(schema["required"])
  const example = asObject(asArray(schema["examples"])[0])
  const fields = Object.entries(asObject(schema["properties"])).map(([name, property]) => {
    const id = `${route.methods}-${name}`
    if (name === route.upload) return uploadControl(id, name)
    const isRequired = required.includes(name)
    const field = resolved(asObject(property), components)
    const description = field["description"]
    const optional = isRequired ? "" : ` <span class="optional">optional</span>`
    return `<label for="${escapeHtml(id)}">${escapeHtml(humanName(name))}${optional}</label>
      ${control(id, name, field, isRequired, example[name])}${
        typeof description === "string" ? `\n      <p class="help">${escapeHtml(description)}</p>` : ""
      }`
  })
  const about = kind.description === undefined ? "" : `<p class="help">${escapeHtml(kind.description)}</p>\n      `
  return `<div data-for="${escapeHtml(kind.name)}">
      ${about}${fields.join("\n      ")}
    </div>`
}
