import { useState } from "preact/hooks"
import { config, send } from "./api.ts"

/** A key of this tab. It is gone when the tab closes. */
export interface Key {
  readonly text: string
  /** Unix milliseconds; `undefined` for a key that the visitor brought. */
  readonly expiresAt: number | undefined
}

const stored = "kiln playground key"

const read = (): Key | undefined => {
  const text = sessionStorage.getItem(stored)
  return text === null ? undefined : (JSON.parse(text) as Key)
}

export interface Keys {
  readonly key: Key | undefined
  readonly use: (key: Key | undefined) => void
  /** The key, or a new one where none works and the service issues them. */
  readonly ensure: () => Promise<Key | undefined>
}

export const isThrowaway = (key: Key | undefined): boolean => key?.expiresAt !== undefined

export const useKeys = (): Keys => {
  const [key, setKey] = useState(read)
  const use = (next: Key | undefined): void => {
    if (next === undefined) sessionStorage.removeItem(stored)
    else sessionStorage.setItem(stored, JSON.stringify(next))
    setKey(next)
  }
  const ensure = async (): Promise<Key | undefined> => {
    const known = read()
    const works = known !== undefined && (known.expiresAt === undefined || known.expiresAt > Date.now() + 5_000)
    if (works || !config.playground) return known
    const { body } = await send(undefined, "POST", "/playground/key", {})
    const made: Key = { text: String(body["key"]), expiresAt: Date.parse(String(body["expires_at"])) }
    use(made)
    return made
  }
  return { key, use, ensure }
}
