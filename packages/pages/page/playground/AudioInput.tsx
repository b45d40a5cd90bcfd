import { clock, size } from "@kiln/pages/ui"
import { useRef, useState } from "preact/hooks"
import { config } from "./api.ts"
import { type Audio, exampleFile, inspect, NotAccepted } from "./audio.ts"
import { useKeepFocus } from "./keepFocus.ts"
import { type Recorder, useRecorder } from "./record.ts"

export const Waveform = ({ peaks }: { readonly peaks: ReadonlyArray<number> }) =>
  peaks.length === 0 ? null : (
    <svg class="waveform" viewBox={`0 0 ${peaks.length} 2`} preserveAspectRatio="none" aria-hidden="true">
      {peaks.map((peak, n) => (
        <rect key={n} x={n + 0.2} y={1 - Math.max(0.04, peak)} width="0.6" height={2 * Math.max(0.04, peak)} />
      ))}
    </svg>
  )

export const LevelMeter = ({ recorder: { level, seconds } }: { readonly recorder: Recorder }) => (
  <span class="level">
    <svg
      viewBox="0 0 100 8"
      preserveAspectRatio="none"
      role="meter"
      aria-label="Microphone level"
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(level * 100)}
    >
      <rect class="track" width="100" height="8" rx="2" />
      <rect class="fill" width={Math.max(1, level * 100)} height="8" rx="2" />
    </svg>
    <span class="time">
      {clock(seconds)} / {clock(config.maxSeconds)}
    </span>
  </span>
)

/** Checks a file, and says what is wrong with it. */
export const useAudio = (onAudio: (audio: Audio | undefined) => void) => {
  const [problem, setProblem] = useState<string>()
  const take = async (file: Blob, name: string, seconds?: number): Promise<Audio | undefined> => {
    setProblem(undefined)
    try {
      const audio = await inspect(file, name, seconds)
      onAudio(audio)
      return audio
    } catch (error) {
      onAudio(undefined)
      setProblem(error instanceof NotAccepted ? error.message : "The file cannot be read.")
      return undefined
    }
  }
  return { problem, take, clear: () => setProblem(undefined) }
}

/** A file to drop, choose, record or take from the page. */
export const AudioInput = ({
  audio,
  onAudio,
}: {
  readonly audio: Audio | undefined
  readonly onAudio: (audio: Audio | undefined) => void
}) => {
  const { problem, take } = useAudio(onAudio)
  const recorder = useRecorder(config.maxSeconds)
  const [isOver, setOver] = useState(false)
  const input = useRef<HTMLInputElement>(null)
  const keep = useKeepFocus<HTMLDivElement>()
  const choose = (file: File | undefined): void => void (file && take(file, file.name))
  const finish = async (): Promise<void> => {
    const recording = await recorder.stop()
    if (recording !== undefined) await take(recording.blob, `recording.${recording.format}`, recording.seconds)
  }
  return (
    <div
      {...keep}
      class={`drop${isOver ? " over" : ""}${audio === undefined ? "" : " filled"}`}
      onDragOver={(event) => {
        event.preventDefault()
        setOver(true)
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault()
        setOver(false)
        choose(event.dataTransfer?.files[0])
      }}
    >
      <input
        ref={input}
        id="audio-file"
        class="hidden"
        type="file"
        aria-label="Audio file"
        accept=".mp3,.mp4,.m4a,.wav,.webm,audio/*"
        onChange={({ currentTarget }) => {
          choose(currentTarget.files?.[0])
          currentTarget.value = ""
        }}
      />
      {recorder.isRecording ? (
        <>
          <LevelMeter recorder={recorder} />
          <button type="button" class="primary danger" onClick={() => void finish()}>
            Stop recording
          </button>
        </>
      ) : audio === undefined ? (
        <>
          <p>Drop an audio file here, or</p>
          <div class="buttons">
            <button type="button" onClick={() => input.current?.click()}>
              Choose a file
            </button>
            <button type="button" onClick={() => void recorder.start()}>
              Record
            </button>
            <button type="button" onClick={() => void take(exampleFile(), "example.wav")}>
              Use an example
            </button>
          </div>
          <p class="help">mp3, mp4, m4a, wav or webm · up to 25 MiB and 15 minutes</p>
        </>
      ) : (
        <>
          <p class="file">
            <b>{audio.name}</b>
            <span>
              {clock(audio.seconds)} · {size(audio.file.size)} · {audio.format}
            </span>
          </p>
          <Waveform peaks={audio.peaks} />
          <audio controls src={audio.url} />
          <div class="buttons">
            <button type="button" class="small" onClick={() => input.current?.click()}>
              Replace
            </button>
            <button type="button" class="small" onClick={() => onAudio(undefined)}>
              Remove
            </button>
          </div>
        </>
      )}
      {(problem ?? recorder.problem) !== undefined && (
        <p class="failure" role="alert">
          {problem ?? recorder.problem}
        </p>
      )}
    </div>
  )
}
