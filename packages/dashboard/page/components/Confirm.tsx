import type { ComponentChildren } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { RequestFailed } from "../api.ts"

export interface Question {
  /** What happens, in words: `Turn off ai: 214 waiting jobs will not start`. */
  readonly title: string
  readonly body?: ComponentChildren
  /** A moment that the operator chooses, as RFC 3339. */
  readonly moment?: { readonly label: string; readonly value: string }
  /** One of several values that the operator chooses. */
  readonly choice?: { readonly label: string; readonly value: string; readonly options: ReadonlyArray<string> }
  /** The command that does the same. */
  readonly command?: string | ((given: string) => string)
  readonly verb: string
  readonly isDangerous?: boolean
  /** True if nothing would change: there is nothing to confirm. */
  readonly isEmpty?: boolean
  /** Resolves with a text that says what happened; or with none to close at once. `tell` shows progress. */
  readonly run: (tell: (text: string) => void, given: string) => Promise<string | undefined>
}

/** A moment as the value of a field, in the viewer's time zone. */
const asField = (moment: string): string => {
  const at = new Date(moment)
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

const Dialog = ({ onClose, question }: { readonly question: Question; readonly onClose: () => void }) => {
  const dialog = useRef<HTMLDialogElement>(null)
  const [state, setState] = useState<{ readonly running: boolean; readonly text?: string; readonly failed?: string }>({
    running: false,
  })
  const [given, setGiven] = useState(question.moment?.value ?? question.choice?.value ?? "")
  useEffect(() => dialog.current?.showModal(), [])
  const isDone = state.text !== undefined && !state.running
  const run = async (): Promise<void> => {
    if (state.running) return
    setState({ running: true })
    try {
      const text = await question.run((progress) => setState({ running: true, text: progress }), given)
      if (text === undefined) onClose()
      else setState({ running: false, text })
    } catch (error) {
      setState({ running: false, failed: error instanceof RequestFailed ? error.message : String(error) })
    }
  }
  return (
    <dialog ref={dialog} onClose={onClose} aria-labelledby="question">
      <h2 id="question">{question.title}</h2>
      {question.body !== undefined && <div class="body">{question.body}</div>}
      {question.moment !== undefined && (
        <label class="field">
          <span>{question.moment.label}</span>
          <input
            type="datetime-local"
            value={asField(question.moment.value)}
            onInput={({ currentTarget: { value } }) => setGiven(value === "" ? "" : new Date(value).toISOString())}
          />
        </label>
      )}
      {question.choice !== undefined && (
        <label class="field">
          <span>{question.choice.label}</span>
          <select value={given} onChange={({ currentTarget: { value } }) => setGiven(value)}>
            {question.choice.options.map((option) => (
              <option key={option} value={option}>
                {option}
              </option>
            ))}
          </select>
        </label>
      )}
      {question.command !== undefined && (
        <p class="command">
          <span class="faint">The same in a terminal</span>
          <code>{typeof question.command === "string" ? question.command : question.command(given)}</code>
        </p>
      )}
      {state.text !== undefined && (
        <p class="outcome" role="status">
          {state.text}
        </p>
      )}
      {state.failed !== undefined && (
        <p class="failure" role="alert">
          {state.failed}
        </p>
      )}
      <div class="buttons">
        <button type="button" onClick={() => dialog.current?.close()}>
          {isDone || question.isEmpty === true ? "Close" : "Back"}
        </button>
        {!isDone && question.isEmpty !== true && (
          <button
            type="button"
            class={question.isDangerous === true ? "primary danger" : "primary"}
            disabled={state.running || (question.moment !== undefined && given === "")}
            onClick={() => void run()}
          >
            {state.running ? "Working…" : question.verb}
          </button>
        )}
      </div>
    </dialog>
  )
}

/** A button whose action is confirmed in words. `ask` may read what the question needs to say. */
export const Action = ({
  ask,
  children,
  disabled = false,
  onDone,
}: {
  readonly children: string
  readonly ask: () => Question | Promise<Question>
  readonly onDone?: () => void
  readonly disabled?: boolean
}) => {
  const [question, setQuestion] = useState<Question>()
  const [isAsking, setAsking] = useState(false)
  const [failure, setFailure] = useState<string>()
  const open = async (): Promise<void> => {
    setAsking(true)
    setFailure(undefined)
    try {
      setQuestion(await ask())
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error))
    } finally {
      setAsking(false)
    }
  }
  const close = (): void => {
    setQuestion(undefined)
    onDone?.()
  }
  return (
    <>
      <button type="button" class="small" disabled={disabled || isAsking} onClick={() => void open()}>
        {isAsking ? "Counting…" : children}
      </button>
      {failure !== undefined && (
        <span class="failure" role="alert">
          {failure}
        </span>
      )}
      {question !== undefined && <Dialog question={question} onClose={close} />}
    </>
  )
}
