import { Answer } from "./Answer.ts"
import { mountPrefix, publicUrl } from "./Service.ts"

const below = `${publicUrl}${mountPrefix}/`
const without = (text: string) => text.replaceAll(below, `${publicUrl}/`)

/** Takes the prefix out of the URLs of an answer, so that rows need not know of it. A URL without it is not below the public URL. */
export const withoutPrefix = ({ wire }: Answer): Answer => {
  if (wire.body.includes(`${publicUrl}/v1/`)) throw new Error("a URL without the prefix")
  return new Answer({
    ...wire,
    headers: wire.headers.map(([name, value]) => [name, without(value)] as const),
    body: wire.body.includes(below) ? Buffer.from(without(wire.body.toString("utf8"))) : wire.body,
  })
}
