import { missingParameter, refuse } from "../failures.ts"
import { png } from "../files/png.ts"
import { invalidValue, jsonFields, optionalCount, optionalText, requiredText } from "./jsonFields.ts"
import { CREATED_AT_SECONDS, file, json, seedOf, type Service, type WireAnswer } from "./Service.ts"

/** Supported sizes; `auto` is the first one. */
const sizes = ["1024x1024", "1536x1024", "1024x1536"] as const
const square = sizes[0]
const MOST_IMAGES = 10

export const image: Service<"image"> = {
  read: (incoming) => {
    const fields = jsonFields(incoming)
    const model = requiredText(fields, "model")
    const prompt = requiredText(fields, "prompt")
    if (prompt === "") throw missingParameter("prompt")
    const size = optionalText(fields, "size") ?? "auto"
    if (size !== "auto" && !sizes.some((one) => one === size)) throw invalidValue("size", size, [...sizes, "auto"])
    const count = optionalCount(fields, "n") ?? 1
    if (count < 1 || count > MOST_IMAGES) throw invalidValue("n", String(count), ["1", "...", String(MOST_IMAGES)])
    return {
      model,
      prompt,
      size: size === "auto" ? square : size,
      count,
      responseFormat: formatOf(fields, model),
      fields,
    }
  },

  answer: ({ count, prompt, responseFormat, size }, value, { origin }) => {
    const names = Array.from(
      { length: count },
      (_, index) => `${seedOf(prompt, String(index)).toString("hex")}-${size}`,
    )
    const files = (): ReadonlyArray<Uint8Array> => names.map((name) => value?.data ?? drawn(name))
    const inBase64 = (change: (data: Uint8Array) => string): WireAnswer =>
      envelope(files().map((data) => ({ b64_json: change(data) })))
    if (value?.url !== undefined || (responseFormat === "url" && value?.data === undefined)) {
      return envelope(names.map((name) => ({ url: value?.url ?? `${origin}/files/${name}.png` })))
    }
    return {
      ...inBase64((data) => Buffer.from(data).toString("base64")),
      cut: () => inBase64((data) => Buffer.from(data.subarray(0, data.length >> 1)).toString("base64")).body,
      wrongBase64: () => inBase64(() => "*** this is not base64 ***").body,
    }
  },
}

/** Requires no credentials, because URLs of the real service are signed. */
export const imageFile: Service<"imageFile"> = {
  read: ({ path }) => ({ name: path.replace(/^.*\//, "").replace(/[.]png$/, "") }),
  answer: ({ name }, value) => file(value?.data ?? drawn(name), value?.mediaType ?? "image/png"),
}

/** The path determines the image, so that no images need to be stored. */
export const imagePath = new RegExp(`^/files/[0-9a-f]{64}-(${sizes.join("|")})[.]png$`)

const drawn = (name: string): Buffer => {
  const [seed = "", size = square] = name.split("-")
  const [width, height] = size.split("x").map(Number)
  return png(Buffer.from(seed, "hex"), width ?? 0, height ?? 0)
}

const formatOf = (fields: Readonly<Record<string, unknown>>, model: string): "b64_json" | "url" => {
  const asked = optionalText(fields, "response_format")
  const isNewer = model.startsWith("gpt-image")
  if (asked !== undefined && isNewer) {
    throw refuse("Unknown parameter: 'response_format'.", { param: "response_format", code: "unknown_parameter" })
  }
  const format = asked ?? (isNewer ? "b64_json" : "url")
  if (format !== "b64_json" && format !== "url") throw invalidValue("response_format", format, ["url", "b64_json"])
  return format
}

const envelope = (data: ReadonlyArray<object>): WireAnswer =>
  json({
    created: CREATED_AT_SECONDS,
    background: "opaque",
    data,
    output_format: "png",
    quality: "low",
    usage: {
      input_tokens: 10,
      input_tokens_details: { image_tokens: 0, text_tokens: 10 },
      output_tokens: 272 * data.length,
      total_tokens: 10 + 272 * data.length,
    },
  })
