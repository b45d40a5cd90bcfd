/** The text of a setting breaks its rule. */
export interface BrokenRule {
  readonly ok: false
  /** What the text must be, to be read behind the setting's name: `must be a whole number from 1 to 1000`. */
  readonly rule: string
}
export type ParsedSetting<A> = { readonly ok: true; readonly value: A } | BrokenRule

/** How the text of a setting is read. It is never empty: an empty variable counts as unset. */
export type SettingType<A> = (text: string) => ParsedSetting<A>

export const parsed = <A>(value: A): ParsedSetting<A> => ({ ok: true, value })
export const broken = (rule: string): BrokenRule => ({ ok: false, rule })
