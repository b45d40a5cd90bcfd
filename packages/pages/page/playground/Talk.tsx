import { useEffect, useRef } from "preact/hooks"
import { config } from "./api.ts"
import type { Audio } from "./audio.ts"
import { LevelMeter, useAudio, Waveform } from "./AudioInput.tsx"
import { useRecorder } from "./record.ts"
import type { Run, Runs } from "./runs.ts"
import { SignedFile } from "./SignedFile.tsx"

/** Below this, a press is a click: the recording goes on until the next one. */
const clickMs = 350

/** Records while it is held, and hands over what was said on release. */
export const PushToTalk = ({
  isBusy,
  onAudio,
}: {
  readonly isBusy: boolean
  readonly onAudio: (audio: Audio) => void
}) => {
  const recorder = useRecorder(config.maxSeconds)
  const { problem, take } = useAudio(() => undefined)
  const pressedAt = useRef<number | undefined>(undefined)
  const finish = async (): Promise<void> => {
    const recording = await recorder.stop()
    if (recording === undefined) return
    const audio = await take(recording.blob, `question.${recording.format}`, recording.seconds)
    if (audio !== undefined) onAudio(audio)
  }
  const press = (): void => {
    if (isBusy) return
    if (recorder.isRecording) return void finish()
    pressedAt.current = performance.now()
    void recorder.start()
  }
  const release = (): void => {
    const at = pressedAt.current
    pressedAt.current = undefined
    if (at !== undefined && performance.now() - at > clickMs) void finish()
  }
  return (
    <div class="talk">
      <button
        type="button"
        class={`mic${recorder.isRecording ? " on" : ""}`}
        aria-pressed={recorder.isRecording}
        aria-disabled={isBusy}
        onPointerDown={press}
        onPointerUp={release}
        onPointerCancel={release}
        onKeyDown={(event) => {
          if (event.key !== " " && event.key !== "Enter") return
          event.preventDefault()
          if (!event.repeat) press()
        }}
        onKeyUp={(event) => {
          if (event.key === " " || event.key === "Enter") release()
        }}
      >
        <svg viewBox="0 0 24 24" aria-hidden="true">
          <path d="M12 15a4 4 0 0 0 4-4V6a4 4 0 0 0-8 0v5a4 4 0 0 0 4 4zm7-4a7 7 0 0 1-6 6.900V21h-2v-3.100A7 7 0 0 1 5 11h2a5 5 0 0 0 10 0z" />
        </svg>
        <span>{recorder.isRecording ? "Release to send" : "Hold to talk"}</span>
      </button>
      {recorder.isRecording ? (
        <LevelMeter recorder={recorder} />
      ) : (
        <p class="help">Hold the button or the space bar and speak. A short click records until the next click.</p>
      )}
      {(problem ?? recorder.problem) !== undefined && (
        <p class="failure" role="alert">
          {problem ?? recorder.problem}
        </p>
      )}
    </div>
  )
}

/** The voice turns of this tab, as a conversation. */
export const Bubbles = ({ runs }: { readonly runs: Runs }) => {
  const turns = runs.list.filter((run) => run.kind.name === "voice_turn" && run.state !== undefined).toReversed()
  const end = useRef<HTMLOListElement>(null)
  useEffect(() => {
    end.current?.scrollTo({ top: end.current.scrollHeight })
  }, [turns.length])
  if (turns.length === 0) return null
  return (
    <ol class="bubbles" ref={end} aria-label="Conversation" tabIndex={0}>
      {turns.map((run) => (
        <Turn key={run.tag} run={run} onExpired={() => runs.refresh(run)} />
      ))}
    </ol>
  )
}

const Turn = ({ onExpired, run }: { readonly run: Run; readonly onExpired: () => Promise<void> }) => {
  const { output, status } = run.state ?? {}
  const url = output?.["audio_url"]
  const text = output?.["text"]
  return (
    <>
      <li class="mine">
        {run.said === undefined ? (
          "Your question"
        ) : (
          <>
            <Waveform peaks={run.said.peaks} />
            <audio controls src={run.said.url} />
          </>
        )}
      </li>
      <li class="theirs">
        {run.isDeleted === true ? (
          <i>deleted</i>
        ) : status === "done" ? (
          <>
            <p>{typeof text === "string" ? text : ""}</p>
            {typeof url === "string" && (
              <SignedFile name="audio_url" url={url} baseName={run.id ?? "reply"} alt="" onExpired={onExpired} />
            )}
          </>
        ) : status === "failed" ? (
          <span class="bad">The turn failed: {run.state?.error_code}</span>
        ) : (
          <span class="dots">…</span>
        )}
      </li>
    </>
  )
}
