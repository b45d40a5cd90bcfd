import * as Schema from "effect/Schema"

/** A setting is invalid. */
export class HttpSettingInvalid extends Schema.TaggedError<HttpSettingInvalid>()("HttpSettingInvalid", {
  setting: Schema.Literals(["signingKeys", "trustedProxies", "publicUrl", "prefix", "redirectFiles", "routes"]),
  /** The rule it violates; never contains any part of a key. */
  problem: Schema.String,
}) {
  override get message(): string {
    return `${this.setting}: ${this.problem}`
  }
}
