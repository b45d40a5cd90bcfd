import { span } from "@kiln/pages/ui"

export const secondsBetween = (from: string, to: string | number): number =>
  (new Date(to).getTime() - new Date(from).getTime()) / 1_000

/** `3 min ago`, `in 2 s`. */
export const ago = (time: string, now = Date.now()): string => {
  const seconds = secondsBetween(time, now)
  if (Math.abs(seconds) < 1) return "now"
  return seconds > 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`
}

/** `Nov 26, 14:03:05`, in the viewer's time zone. */
export const moment = (time: string): string =>
  new Date(time).toLocaleString("en-US", {
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hour12: false,
  })

/** The random end of an identifier, which tells apart those of the same time. A short one that a host has chosen stays whole. */
export const shortId = (id: string): string => (id.length < 30 ? id : `${id.slice(0, 4)}…${id.slice(-8)}`)
