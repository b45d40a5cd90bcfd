import { useEffect, useRef, useState } from "preact/hooks"
import { humanName } from "@kiln/pages/ui"

/** How soon a link that fails is replaced again. Otherwise a file that is gone would be asked for without end. */
const refreshPauseMs = 5_000

type Media = "audio" | "image" | "other"

const mediaOf = (name: string): Media | undefined =>
  name === "audio_url" ? "audio" : name === "image_url" ? "image" : undefined

/** Finds out what a file is that its name does not tell. */
const useMedia = (name: string, url: string): Media | undefined => {
  const [media, setMedia] = useState(mediaOf(name))
  useEffect(() => {
    if (media !== undefined) return
    const look = async (): Promise<void> => {
      const response = await fetch(url, { method: "HEAD" }).catch(() => undefined)
      const [type] = (response?.headers.get("content-type") ?? "").split("/")
      setMedia(type === "audio" || type === "image" ? type : "other")
    }
    void look()
  }, [])
  return media
}

const save = (blob: Blob, name: string): void => {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
}

const endings: Readonly<Record<string, string>> = {
  "audio/mpeg": "mp3",
  "audio/wav": "wav",
  "image/png": "png",
  "image/jpeg": "jpg",
  "image/webp": "webp",
  "text/plain": "txt",
  "text/html": "html",
  "application/json": "json",
}

/** A file of a finished job. Its link expires, so one that fails is replaced. */
export const SignedFile = ({
  alt,
  baseName,
  name,
  onExpired,
  url,
}: {
  readonly name: string
  readonly url: string
  readonly baseName: string
  readonly alt: string
  /** Reads the job again; a new `url` follows. */
  readonly onExpired: () => Promise<void>
}) => {
  const media = useMedia(name, url)
  const refreshedAt = useRef(-Infinity)
  const resume = useRef<{ readonly at: number } | undefined>(undefined)
  const player = useRef<HTMLAudioElement>(null)
  const [problem, setProblem] = useState<string>()
  /** Counts the links. A player that has failed begins anew. */
  const [attempt, setAttempt] = useState(0)

  const renew = async (): Promise<void> => {
    const now = performance.now()
    if (now - refreshedAt.current < refreshPauseMs) return setProblem("The file cannot be loaded.")
    refreshedAt.current = now
    if (player.current !== null) resume.current = { at: player.current.currentTime }
    try {
      await onExpired()
      setAttempt((before) => before + 1)
    } catch {
      setProblem("The file cannot be loaded at the moment.")
    }
  }
  useEffect(() => {
    setProblem(undefined)
    const from = resume.current
    resume.current = undefined
    if (from === undefined || player.current === null) return
    player.current.currentTime = from.at
  }, [attempt])

  const latest = useRef(url)
  latest.current = url
  const download = async (): Promise<void> => {
    let response = await fetch(latest.current)
    if (response.status === 410 || response.status === 403) {
      await onExpired()
      // The new link arrives with the next rendering.
      await new Promise((resolve) => setTimeout(resolve, 50))
      response = await fetch(latest.current)
    }
    if (!response.ok) return setProblem(`The file cannot be downloaded (${response.status}).`)
    const blob = await response.blob()
    const type = (response.headers.get("content-type") ?? "").split(";")[0] ?? ""
    save(blob, `${baseName}.${endings[type] ?? "bin"}`)
  }
  return (
    <div class="file-result">
      {media === "audio" && <audio key={attempt} ref={player} controls src={url} onError={() => void renew()} />}
      {media === "image" && <img key={attempt} class="frame" src={url} alt={alt} onError={() => void renew()} />}
      {media === "other" && <p>{humanName(name.replace(/_url$/, ""))}</p>}
      <div class="buttons">
        <button
          type="button"
          class="small"
          onClick={() => void download().catch(() => setProblem("The service cannot be reached."))}
        >
          Download
        </button>
      </div>
      {problem !== undefined && (
        <p class="failure" role="alert">
          {problem}
        </p>
      )}
    </div>
  )
}
