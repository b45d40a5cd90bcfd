import type { Audio } from "./audio.ts"
import { failureOf, Failure, send } from "./api.ts"

export interface Transfer {
  readonly sent: number
  readonly total: number
  /** Bytes per second over the last moments. */
  readonly speed: number
}

const contentTypes = { mp3: "audio/mpeg", mp4: "audio/mp4", m4a: "audio/mp4", wav: "audio/wav", webm: "audio/webm" }

/** Sends a file to its signed URL. Rejects with an `AbortError` if the signal aborts. */
const put = (url: string, audio: Audio, onProgress: (transfer: Transfer) => void, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    // `fetch` does not say how much was sent.
    const request = new XMLHttpRequest()
    const marks: Array<readonly [at: number, sent: number]> = [[performance.now(), 0]]
    request.upload.addEventListener("progress", ({ loaded, total }) => {
      const now = performance.now()
      marks.push([now, loaded])
      if (marks.length > 20) marks.shift()
      const [since, from] = marks[0] ?? [now, 0]
      onProgress({ sent: loaded, total, speed: now > since ? ((loaded - from) * 1_000) / (now - since) : 0 })
    })
    request.addEventListener("load", () => {
      if (request.status < 300) resolve()
      else reject(failureOf(request.status, request.responseText, request.getResponseHeader("retry-after")))
    })
    request.addEventListener("error", () =>
      reject(new Failure({ status: 0, code: "interrupted", message: "The transfer was interrupted." })),
    )
    request.addEventListener("abort", () => reject(new DOMException("canceled", "AbortError")))
    signal.addEventListener("abort", () => request.abort())
    request.open("PUT", url)
    request.setRequestHeader("content-type", contentTypes[audio.format])
    request.send(audio.file)
  })

interface Announced {
  readonly id: string
  readonly url: string
  readonly expiresAt: number
  readonly key: string | undefined
}

/** Uploads whose file did not arrive, so that trying again uses the same URL. */
const open = new WeakMap<Blob, Announced>()

/** Announces a file and sends it. Returns the upload's identifier. */
export const upload = async (
  key: string | undefined,
  audio: Audio,
  onProgress: (transfer: Transfer) => void,
  signal: AbortSignal,
): Promise<string> => {
  const known = open.get(audio.file)
  const announce = async (): Promise<Announced> => {
    const wish = { format: audio.format, declared_seconds: audio.seconds }
    const { body } = await send(key, "POST", "/v1/audio/uploads", wish, signal)
    return {
      id: String(body["id"]),
      url: String(body["upload_url"]),
      expiresAt: Date.parse(String(body["expires_at"])),
      key,
    }
  }
  const announced =
    known !== undefined && known.key === key && known.expiresAt > Date.now() + 10_000 ? known : await announce()
  open.set(audio.file, announced)
  onProgress({ sent: 0, total: audio.file.size, speed: 0 })
  await put(announced.url, audio, onProgress, signal).catch((error: unknown) => {
    // What is wrong with this URL is not wrong with the next.
    if (error instanceof Failure && error.status !== 0) open.delete(audio.file)
    throw error
  })
  open.delete(audio.file)
  return announced.id
}
