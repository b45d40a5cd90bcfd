import type { Observer } from "@kiln/core/effect"
import type { OperatorRole } from "@kiln/core/ports"

/** Who calls, and what it may do. */
export interface Operator {
  /** A name for the audit log, such as `alice`. */
  readonly name: string
  /** `operate` and `content` include `view`. */
  readonly roles: ReadonlyArray<OperatorRole>
}

/** The caller of a request, with where it came from, for the audit log. */
export interface Caller extends Operator {
  readonly origin: string
}

/** Returns the caller as the audit log names it. */
export const observerOf = ({ name, origin }: Caller): Observer => ({ actor: name, origin })

/** Returns whether an operator has a role. */
export const hasRole = ({ roles }: Operator, role: OperatorRole): boolean =>
  role === "view" ? roles.length > 0 : roles.includes(role)
