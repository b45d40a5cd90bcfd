/** Money by integers alone, written for these tests: what kiln computes with must not vouch for itself. */

const PLACES = 60

const unitsOf = (text: string): bigint => {
  const [, whole, fraction = ""] = /^(\d+)(?:\.(\d+))?$/.exec(text) ?? []
  if (whole === undefined || fraction.length > PLACES) throw new Error(`${JSON.stringify(text)} is no amount`)
  return BigInt(whole + fraction.padEnd(PLACES, "0"))
}

const textOf = (units: bigint): string => {
  const digits = units.toString().padStart(PLACES + 1, "0")
  const fraction = digits.slice(-PLACES).replace(/0+$/, "")
  return fraction === "" ? digits.slice(0, -PLACES) : `${digits.slice(0, -PLACES)}.${fraction}`
}

/** The sum of plain decimals, in its shortest spelling. */
export const exactSum = (amounts: Iterable<string>): string => {
  let sum = 0n
  for (const amount of amounts) sum += unitsOf(amount)
  return textOf(sum)
}

export const exactTimes = (amount: string, quantity: number): string => textOf(unitsOf(amount) * BigInt(quantity))
