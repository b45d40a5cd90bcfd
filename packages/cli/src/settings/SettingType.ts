/** The text of a setting is invalid. */
export interface BrokenRule {
  readonly ok: false
  /** The rule, phrased to follow the setting's name: `must be an integer from 1 to 1000`. */
  readonly rule: string
}
export type ParsedSetting<A> = { readonly ok: true; readonly value: A } | BrokenRule

/** Parses the text of a setting. The text is never empty, because an empty variable counts as unset. */
export type SettingType<A> = (text: string) => ParsedSetting<A>

export const parsed = <A>(value: A): ParsedSetting<A> => ({ ok: true, value })
export const broken = (rule: string): BrokenRule => ({ ok: false, rule })
