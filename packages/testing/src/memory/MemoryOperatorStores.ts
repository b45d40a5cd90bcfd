import { keptMinutes, MinuteHistory, type OperatorToken, OperatorTokens } from "@kiln/core/ports"
import type { AroundVerb } from "./mapVerbs.ts"
import { keep, type MemoryState, step } from "./MemoryState.ts"

const minuteMs = 60_000

const read = (operation: string) => ({ operation, nature: "read" }) as const
const write = (operation: string) => ({ operation, nature: "write" }) as const

/** The reference model of `OperatorTokens`. `around` wraps each call. */
export const makeMemoryOperatorTokens = (
  state: MemoryState,
  around: AroundVerb = (_, verb) => verb,
): OperatorTokens["Service"] =>
  OperatorTokens.of({
    createToken: ({ secretHash, ...given }) =>
      around(
        write("OperatorTokens.createToken"),
        step((now) => {
          const token: OperatorToken = keep({ ...given, createdAt: now, revokedAt: null })
          state.operatorTokens.set(secretHash, token)
          return token
        }),
      ),
    listTokens: around(
      read("OperatorTokens.listTokens"),
      step(() => [...state.operatorTokens.values()]),
    ),
    revokeToken: (id) =>
      around(
        write("OperatorTokens.revokeToken"),
        step((now) => {
          for (const [hash, token] of state.operatorTokens)
            if (token.id === id) {
              const revoked = keep({ ...token, revokedAt: token.revokedAt ?? now })
              state.operatorTokens.set(hash, revoked)
              return revoked
            }
          return undefined
        }),
      ),
    findToken: (secretHash) =>
      around(
        read("OperatorTokens.findToken"),
        step((now) => {
          const token = state.operatorTokens.get(secretHash)
          const isValid = token?.revokedAt === null && (token.expiresAt === null || token.expiresAt > now)
          return isValid ? token : undefined
        }),
      ),
  })

/** The reference model of `MinuteHistory`. `around` wraps each call. */
export const makeMemoryMinuteHistory = (
  state: MemoryState,
  around: AroundVerb = (_, verb) => verb,
): MinuteHistory["Service"] =>
  MinuteHistory.of({
    writeMinute: (figures) =>
      around(
        write("MinuteHistory.writeMinute"),
        step((now) => {
          const at = now - (now % minuteMs)
          if (state.minutes.has(at)) return false
          for (const old of state.minutes.keys()) if (old <= at - keptMinutes * minuteMs) state.minutes.delete(old)
          state.minutes.set(at, keep(figures))
          return true
        }),
      ),
    listMinutes: (withinMs) =>
      around(
        read("MinuteHistory.listMinutes"),
        step((now) =>
          [...state.minutes]
            .filter(([at]) => at > now - withinMs)
            .sort(([one], [other]) => one - other)
            .map(([at, figures]) => ({ at, figures })),
        ),
      ),
  })
