import { setTimeout as sleep } from "node:timers/promises"
import type { TestServer } from "../server/startServer.ts"

/** A mono WAV file with silence. */
export const wav = (bytes = 800): Buffer => {
  const file = Buffer.alloc(44 + bytes)
  file.write("RIFF", 0)
  file.writeUInt32LE(36 + bytes, 4)
  file.write("WAVEfmt ", 8)
  file.writeUInt32LE(16, 16)
  file.writeUInt16LE(1, 20)
  file.writeUInt16LE(1, 22)
  file.writeUInt32LE(100, 24)
  file.writeUInt32LE(100, 28)
  file.writeUInt16LE(1, 32)
  file.writeUInt16LE(8, 34)
  file.write("data", 36)
  file.writeUInt32LE(bytes, 40)
  return file
}

export const boundary = "kiln-boundary"

export type Part = readonly [name: string, content: string | Buffer]

/** A form as clients send it. A buffer is a file. */
export const form = (...parts: ReadonlyArray<Part>): Buffer =>
  Buffer.concat([
    ...parts.flatMap(([name, content]) => [
      Buffer.from(
        `--${boundary}\r\nContent-Disposition: form-data; name="${name}"${typeof content === "string" ? "" : '; filename="a.wav"\r\nContent-Type: audio/wav'}\r\n\r\n`,
      ),
      Buffer.from(content),
      Buffer.from("\r\n"),
    ]),
    Buffer.from(`--${boundary}--\r\n`),
  ])

/** A response, read to its end. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly json: ReturnType<typeof JSON.parse>
}

/** Calls the endpoints of a server as OpenAI's clients do. */
export const callerOf =
  (server: Pick<TestServer, "url">, key: string) =>
  async (
    path: string,
    body?: object | Buffer,
    headers: Readonly<Record<string, string>> = {},
    signal?: AbortSignal,
  ): Promise<Answer> => {
    const isForm = body instanceof Uint8Array
    const response = await fetch(`${server.url}/openai/v1/${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: {
        authorization: `Bearer ${key}`,
        ...(body !== undefined && {
          "content-type": isForm ? `multipart/form-data; boundary=${boundary}` : "application/json",
        }),
        ...headers,
      },
      ...(body !== undefined && { body: isForm ? new Uint8Array(body) : JSON.stringify(body) }),
      ...(signal !== undefined && { signal }),
    })
    const text = await response.text()
    const isJson = response.headers.get("content-type")?.startsWith("application/json") === true
    return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined }
  }

/** Repeats a check until it holds. */
export const until = async (holds: () => Promise<boolean>): Promise<void> => {
  while (!(await holds())) await sleep(10)
}
