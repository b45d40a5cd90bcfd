import { createContext } from "preact"
import { useContext } from "preact/hooks"
import type { ResultOf } from "../src/api/operations.ts"

export interface SessionState {
  readonly session: ResultOf<"session">
  readonly signIn: () => void
  readonly signOut: (() => void) | undefined
}

export const SessionContext = createContext<SessionState | undefined>(undefined)

const useSession = (): SessionState => {
  const state = useContext(SessionContext)
  if (state === undefined) throw new Error("there is no session")
  return state
}

export const useMay = (role: "operate" | "content"): boolean => useSession().session.roles.includes(role)
