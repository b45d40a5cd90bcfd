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

/** The project's mark and name, as a link to the start of the page. */
export const Brand = ({ href }: { readonly href: string }) => (
  <a class="brand" href={href}>
    <svg viewBox="0 0 24 24" aria-hidden="true">
      <path d="M12 2c2 4 6 6 6 11a6 6 0 0 1-12 0c0-2 1-3.500 2-4.500 0 2 1 3 2 3.500 0-4 1-7 2-10z" />
    </svg>
    kiln
  </a>
)
