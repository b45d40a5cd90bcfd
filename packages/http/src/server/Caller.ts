import type { KeyLimits } from "@kiln/core/domain"

/** The caller of a request, as identified by a program with its own users. Jobs belong to the caller that created them. */
export interface Caller {
  /**
   * Permanent identifier: 1 to 64 letters, digits, `-` and `_`, like `project` in `submit`. Turns, caps and bills are per
   * project. The prefix `prj_` may be included.
   */
  readonly projectId: string
  /**
   * Permanent identifier of the owner within the project: 1 to 128 letters, digits and `-_.@~`. Callers with different keys
   * never see each other's jobs. If omitted, jobs belong to the project, together with those that the program submits for it.
   */
  readonly keyId?: string | undefined
  /** `sandbox` never reaches a live provider and never costs anything. Jobs created in one mode are not visible in the other. */
  readonly mode: "sandbox" | "live"
  /** Permissions: `audio.create`, `images.create`, and the key scopes of custom job kinds. */
  readonly scopes: ReadonlyArray<string>
  /** Rate limits of this caller that replace the service's. */
  readonly limits?: KeyLimits | undefined
}
