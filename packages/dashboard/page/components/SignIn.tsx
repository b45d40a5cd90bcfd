import { useState } from "preact/hooks"
import { call, RequestFailed, readToken, writeToken } from "../api.ts"

const textOf = (value: FormDataEntryValue | null): string => (typeof value === "string" ? value.trim() : "")

/** Asks for a token, and tries it. */
export const SignIn = ({
  onCancel,
  onDone,
  why,
}: {
  readonly why: string
  readonly onDone: () => void
  readonly onCancel?: (() => void) | undefined
}) => {
  const [failure, setFailure] = useState<string>()
  const [isTrying, setTrying] = useState(false)
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault()
    const token = textOf(new FormData(event.currentTarget as HTMLFormElement).get("token"))
    const before = readToken()
    writeToken(token)
    setTrying(true)
    try {
      await call("session", "GET /session")
      onDone()
    } catch (error) {
      writeToken(before)
      setFailure(error instanceof RequestFailed ? error.message : String(error))
      setTrying(false)
    }
  }
  return (
    <main class="sign-in">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <h1>kiln operations</h1>
        <p>{why}</p>
        <label class="field">
          <span>Token</span>
          <input name="token" type="password" required autocomplete="off" placeholder="kiln_ops_…" autoFocus />
        </label>
        {failure !== undefined && (
          <p class="failure" role="alert">
            {failure}
          </p>
        )}
        <div class="buttons">
          <button type="submit" class="primary" disabled={isTrying}>
            Sign in
          </button>
          {onCancel !== undefined && (
            <button type="button" onClick={onCancel}>
              Cancel
            </button>
          )}
        </div>
        <p class="faint">
          <code>kiln token create --name NAME --role operate</code> makes a token. This tab keeps it until it is closed.
        </p>
      </form>
    </main>
  )
}
