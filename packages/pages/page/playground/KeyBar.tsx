import { useEffect, useRef, useState } from "preact/hooks"
import { config } from "./api.ts"
import { useKeepFocus } from "./keepFocus.ts"
import { isThrowaway, type Keys } from "./keys.ts"
import { useNow } from "./Result.tsx"

const minutesLeft = (expiresAt: number, now: number): string => {
  const minutes = Math.round((expiresAt - now) / 60_000)
  return minutes <= 0 ? "expired" : `${minutes} min left`
}

/** The key of this tab: a throwaway one, or the visitor's own. */
export const KeyBar = ({
  isOpen,
  keys,
  onOpen: setOpen,
}: {
  readonly keys: Keys
  readonly isOpen: boolean
  readonly onOpen: (isOpen: boolean) => void
}) => {
  const { key } = keys
  const input = useRef<HTMLInputElement>(null)
  // It was asked for: by its own button, or by an error further down.
  const wasOpen = useRef(isOpen)
  useEffect(() => {
    if (isOpen && !wasOpen.current) input.current?.focus()
    wasOpen.current = isOpen
  }, [isOpen])
  const [text, setText] = useState("")
  const keep = useKeepFocus<HTMLDivElement>()
  const now = useNow(isThrowaway(key), 10_000)
  const isLive = key?.text.startsWith("kiln_live_") === true
  const mask = key === undefined ? "" : `${key.text.slice(0, 10)}…${key.text.slice(-4)}`
  return (
    <div class="keybar" {...keep}>
      <p>
        {key === undefined ? (
          config.playground ? (
            <span>
              Just run something: a free sandbox key is made for you. It costs nothing and expires in an hour.
            </span>
          ) : (
            <span>Enter an API key to begin. Test keys cost nothing.</span>
          )
        ) : (
          <>
            <code>{mask}</code>
            <span>
              {key.expiresAt === undefined
                ? isLive
                  ? "your live key: jobs are charged"
                  : "your test key: jobs cost nothing"
                : `sandbox key, costs nothing, ${minutesLeft(key.expiresAt, now)}`}
            </span>
          </>
        )}
        {key !== undefined && (
          <button type="button" class="link" onClick={() => keys.use(undefined)}>
            Forget it
          </button>
        )}
        <button type="button" class="link" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Close" : "Use your own key"}
        </button>
      </p>
      {isOpen && (
        <form
          onSubmit={(event) => {
            event.preventDefault()
            if (text.trim() === "") return
            keys.use({ text: text.trim(), expiresAt: undefined })
            setText("")
            setOpen(false)
          }}
        >
          <label for="own-key">API key</label>
          <input
            id="own-key"
            ref={input}
            type="password"
            autocomplete="off"
            spellcheck={false}
            placeholder="kiln_test_…"
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
          <button type="submit" class="primary">
            Use
          </button>
          <p class="help">It stays in this tab until you close it, and goes nowhere but to this service.</p>
        </form>
      )}
    </div>
  )
}
