import { useEffect, useRef, useState } from "preact/hooks"

export interface Recording {
  readonly blob: Blob
  readonly format: "webm" | "mp4"
  readonly seconds: number
}

export interface Recorder {
  readonly isRecording: boolean
  /** Loudness now, from 0 to 1. */
  readonly level: number
  readonly seconds: number
  readonly problem: string | undefined
  readonly start: () => Promise<void>
  /** Ends the recording; `undefined` if there is none. */
  readonly stop: () => Promise<Recording | undefined>
}

const problemOf = (error: unknown): string => {
  const name = error instanceof DOMException ? error.name : ""
  if (name === "NotAllowedError")
    return "The browser does not let this page use the microphone. Allow it in the address bar."
  if (name === "NotFoundError") return "No microphone was found. Connect one, or choose a file."
  return "The microphone cannot be used here. Browsers offer it only to pages over HTTPS and on localhost."
}

interface Running {
  readonly recorder: MediaRecorder
  readonly chunks: Array<Blob>
  readonly context: AudioContext
  readonly startedAt: number
  readonly timer: ReturnType<typeof setInterval>
}

const close = ({ context, recorder, timer }: Running): void => {
  clearInterval(timer)
  for (const track of recorder.stream.getTracks()) track.stop()
  void context.close()
}

/** Records the microphone, with a level for a meter. */
export const useRecorder = (maxSeconds: number): Recorder => {
  const running = useRef<Running | undefined>(undefined)
  const [isRecording, setRecording] = useState(false)
  const [meter, setMeter] = useState({ level: 0, seconds: 0 })
  const [problem, setProblem] = useState<string>()

  const start = async (): Promise<void> => {
    if (running.current !== undefined) return
    setProblem(undefined)
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true })
      const recorder = new MediaRecorder(stream)
      const context = new AudioContext()
      const analyser = context.createAnalyser()
      context.createMediaStreamSource(stream).connect(analyser)
      const samples = new Uint8Array(analyser.fftSize)
      const startedAt = performance.now()
      const chunks: Array<Blob> = []
      recorder.ondataavailable = ({ data }) => void chunks.push(data)
      const timer = setInterval(() => {
        analyser.getByteTimeDomainData(samples)
        const level = Math.min(1, Math.max(...samples.map((value) => Math.abs(value - 128))) / 90)
        const seconds = (performance.now() - startedAt) / 1_000
        // It falls slowly, so that a short sound is seen.
        setMeter((before) => ({ level: Math.max(level, before.level * 0.8), seconds }))
        if (seconds >= maxSeconds && recorder.state === "recording") recorder.stop()
      }, 80)
      recorder.start()
      running.current = { recorder, chunks, context, startedAt, timer }
      setMeter({ level: 0, seconds: 0 })
      setRecording(true)
    } catch (error) {
      setProblem(problemOf(error))
    }
  }

  const stop = async (): Promise<Recording | undefined> => {
    const current = running.current
    if (current === undefined) return undefined
    running.current = undefined
    const seconds = (performance.now() - current.startedAt) / 1_000
    if (current.recorder.state === "recording")
      await new Promise<void>((resolve) => {
        current.recorder.onstop = () => resolve()
        current.recorder.stop()
      })
    close(current)
    setRecording(false)
    const type = current.recorder.mimeType
    return { blob: new Blob(current.chunks, { type }), format: type.includes("mp4") ? "mp4" : "webm", seconds }
  }

  useEffect(
    () => () => {
      if (running.current !== undefined) close(running.current)
    },
    [],
  )
  return { isRecording, ...meter, problem, start, stop }
}
