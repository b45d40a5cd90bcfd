import type { Environment } from "../settings/settingFiles.ts"

type Protocol = "iterm" | "kitty"

/** Returns the protocol for images that the terminal of this environment understands. */
export const imageProtocol = (environment: Environment): Protocol | undefined => {
  const { KITTY_WINDOW_ID, LC_TERMINAL, STY, TERM, TERM_PROGRAM, TMUX } = environment
  // A multiplexer draws the screen itself, and drops what it does not know.
  if (TMUX || STY) return undefined
  if (KITTY_WINDOW_ID || TERM === "xterm-kitty" || TERM === "xterm-ghostty" || TERM_PROGRAM === "ghostty")
    return "kitty"
  const isITerm = TERM_PROGRAM === "iTerm.app" || LC_TERMINAL === "iTerm2"
  return isITerm || TERM_PROGRAM === "WezTerm" ? "iterm" : undefined
}

/** The longest payload of one escape sequence of kitty's protocol. */
const kittyChunk = 4_096
/** Width of the image in columns. */
const imageColumns = 40

const kitty = (payload: string): string => {
  const chunks = payload.match(new RegExp(`.{1,${kittyChunk}}`, "g")) ?? []
  return chunks
    .map((chunk, index) => {
      const more = index < chunks.length - 1 ? 1 : 0
      const keys = index === 0 ? `a=T,f=100,q=2,c=${imageColumns},m=${more}` : `m=${more}`
      return `\u001b_G${keys};${chunk}\u001b\\`
    })
    .join("")
}

/** Returns the escape sequences that draw a PNG at the cursor. */
export const inlineImage = (protocol: Protocol, png: Uint8Array): string => {
  const payload = Buffer.from(png).toString("base64")
  return protocol === "kitty"
    ? `${kitty(payload)}\n`
    : `\u001b]1337;File=inline=1;size=${png.length};width=${imageColumns};preserveAspectRatio=1:${payload}\u0007\n`
}
