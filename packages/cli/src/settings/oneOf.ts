import { broken, parsed, type SettingType } from "./SettingType.ts"

/** Parses one of a few words. */
export const oneOf =
  <const Words extends ReadonlyArray<string>>(...words: Words): SettingType<Words[number]> =>
  (text) => {
    const word = words.find((candidate) => candidate === text)
    return word === undefined ? broken(`must be ${listed(words)}`) : parsed(word)
  }

const listed = (words: ReadonlyArray<string>): string =>
  words.length > 1 ? `${words.slice(0, -1).join(", ")} or ${words.at(-1)}` : words.join("")

/** `on` or `off`. */
export const onOff: SettingType<boolean> = (text) => {
  const word = oneOf("on", "off")(text)
  return word.ok ? parsed(word.value === "on") : word
}

/** Parses `off`. There is no `on`, because a process can only disable what the operator has enabled for all processes. */
export const forcedOff: SettingType<true> = (text) =>
  text === "off" ? parsed(true) : broken("must be off or unset; use `kiln switch on` to turn the switch on")
