import type { ComponentChildren } from "preact"
import type { RequestFailed } from "../api.ts"
import { ago, moment } from "../format.ts"
import type { Loaded } from "../hooks.ts"

/** A time relative to now, with the exact one as its title. */
export const Time = ({ at }: { readonly at: string | null }) =>
  at === null ? (
    <span class="faint">–</span>
  ) : (
    <time dateTime={at} title={moment(at)}>
      {ago(at)}
    </time>
  )

export const Card = ({
  aside,
  children,
  title,
}: {
  readonly title: string
  readonly aside?: ComponentChildren
  readonly children: ComponentChildren
}) => (
  <section class="card">
    <header>
      <h2>{title}</h2>
      {aside !== undefined && <div class="aside">{aside}</div>}
    </header>
    {children}
  </section>
)

export const Empty = ({ children }: { readonly children: ComponentChildren }) => <p class="empty">{children}</p>

/** A table that scrolls sideways where the screen is narrower. */
export const Table = ({
  children,
  head,
  label,
}: {
  readonly label: string
  /** Headings; one that begins with `#` is a column of numbers. */
  readonly head: ReadonlyArray<string>
  readonly children: ComponentChildren
}) => (
  <div class="scroll" role="region" aria-label={label} tabIndex={0}>
    <table>
      <thead>
        <tr>
          {head.map((heading, index) =>
            heading === "" ? (
              <td key={index} />
            ) : (
              <th key={index} scope="col" class={heading.startsWith("#") ? "number" : undefined}>
                {heading.replace(/^#/, "")}
              </th>
            ),
          )}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  </div>
)

export const Failure = ({ error }: { readonly error: RequestFailed }) => (
  <p class="failure" role="alert">
    {error.message}
    {error.code === "service_unavailable" || error.code === "offline" ? " The page tries again by itself." : ""}
  </p>
)

/** The content of a view once it is loaded, with the last failure above it. */
export function Shown<A>({
  children,
  loaded: { error, value },
}: {
  readonly loaded: Loaded<A>
  readonly children: (value: A) => ComponentChildren
}) {
  return (
    <>
      {error !== undefined && <Failure error={error} />}
      {value !== undefined ? children(value) : error === undefined && <p class="loading">Loading…</p>}
    </>
  )
}

/** A heading with what can be done. */
export const Head = ({
  children,
  note,
  title,
}: {
  readonly title: ComponentChildren
  readonly note?: ComponentChildren
  readonly children?: ComponentChildren
}) => (
  <div class="head">
    <div>
      <h1>{title}</h1>
      {note !== undefined && <p class="note">{note}</p>}
    </div>
    {children !== undefined && <div class="actions">{children}</div>}
  </div>
)

/** A share of a whole, as a bar. */
export const Meter = ({ label, share }: { readonly share: number; readonly label: string }) => (
  <svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={label}>
    <rect class="track" width="100" height="6" rx="1" />
    <rect class={share >= 0.9 ? "fill high" : "fill"} width={Math.min(1, share) * 100} height="6" rx="1" />
  </svg>
)
