import { Schema } from "effect"

/** A setting cannot be used. */
export class HttpSettingInvalid extends Schema.TaggedError<HttpSettingInvalid>()("HttpSettingInvalid", {
  setting: Schema.Literals(["signingKeys", "trustedProxies", "publicUrl", "prefix", "routes"]),
  /** The rule it breaks; never any part of a key. */
  problem: Schema.String,
}) {
  override get message(): string {
    return `${this.setting}: ${this.problem}`
  }
}
