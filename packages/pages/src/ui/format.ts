const number = new Intl.NumberFormat("en-US")

/** `12,345`. */
export const count = (value: number): string => number.format(value)

/** `45 ms`, `3.2 s`, `12 min`, `5 h`, `3 d`. */
export const span = (seconds: number): string => {
  if (seconds <= 0) return "0 s"
  if (seconds < 0.001) return "< 1 ms"
  if (seconds < 1) return `${Math.round(seconds * 1_000)} ms`
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`
}

/** `0:07`, `15:00`. */
export const clock = (seconds: number): string => {
  const whole = Math.floor(seconds)
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`
}

/** `1.2 MB`. */
export const size = (bytes: number): string => {
  if (bytes < 1_000) return `${bytes} B`
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1_000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`
}

export const percent = (share: number): string => `${Math.round(share * 100)} %`

/** `1 job`, `2 jobs`. */
export const counted = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? "" : "s"}`
