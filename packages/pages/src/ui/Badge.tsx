export type Tone = "good" | "bad" | "warn" | "busy" | "quiet"

const tones: Readonly<Record<string, Tone>> = {
  done: "good",
  ready: "good",
  active: "good",
  on: "good",
  failed: "bad",
  problem: "bad",
  revoked: "bad",
  paused: "warn",
  warning: "warn",
  retrying: "warn",
  processing: "busy",
  running: "busy",
}

/** A state, as a colored word. */
export const Badge = ({ children, tone }: { readonly children: string; readonly tone?: Tone }) => (
  <span class={`badge ${tone ?? tones[children] ?? "quiet"}`}>{children}</span>
)
