import { plant } from "./jobTransitionBugs.ts"

const never = "charges and reservations never pass a cap, in any history"
const only = "a job is refused only if it could pass a cap"
const sums = "sums by day count as the charges they replace, in this month and at any later time"
const maximum = "no charge passes the maximum cost, which is unknown if a meter with a price is"
const end = "a refusal names the end of its period, in UTC"
const free = "a job that cannot cost anything is never refused"
const file = "SpendCap.ts"

/** Bugs in the text of `domain/SpendCap.ts`, and the property that must notice each. */
export const spendCapBugs = [
  plant("reservations are forgotten", never, file, "Decimal.add(Decimal.parse(reserved), most)", "most"),
  plant(
    "the job itself is forgotten",
    never,
    file,
    "Decimal.add(Decimal.parse(reserved), most)",
    "Decimal.parse(reserved)",
  ),
  plant("the project's cap is forgotten", never, file, "of inOrder(spending)", "of inOrder(spending).slice(0, 1)"),
  plant(
    "the cap of the month is forgotten",
    never,
    file,
    "for (const period of spendPeriods) {",
    'for (const period of ["day"] as const) {',
  ),
  plant(
    "reservations of earlier days do not count",
    never,
    file,
    "filter(({ chargedAt }) => chargedAt === null)",
    "filter(() => now % 172_800_000 < 86_400_000)",
  ),
  plant("a job that reaches the cap exactly is refused", only, file, "limit) <= 0) continue", "limit) < 0) continue"),
  plant(
    "charges of yesterday count",
    only,
    file,
    'period === "day" ? date.getUTCDate() : 1)',
    'period === "day" ? date.getUTCDate() - 1 : 1)',
  ),
  plant(
    "a free job is refused",
    free,
    file,
    "Decimal.compare(most, Decimal.zero) === 0) return",
    "Decimal.compare(most, Decimal.zero) < 0) return",
  ),
  plant(
    "currencies are added up",
    sums,
    file,
    '${startOfPeriod("day", chargedAt ?? 0)} ${currency}',
    '${startOfPeriod("day", chargedAt ?? 0)}',
  ),
  plant(
    "the previous day is lost",
    sums,
    file,
    'const since = startOfPeriod("month", startOfPeriod("month", now) - 1)',
    'const since = startOfPeriod("day", now)',
  ),
  plant(
    "more than the maximum is charged",
    maximum,
    file,
    "Math.min(quantity, valueOf(maxUsage, meter) ?? quantity)",
    "quantity",
  ),
  plant("an unknown maximum counts as nothing", maximum, file, "costs(meter) && !Object.hasOwn(known, meter)", "false"),
  plant(
    "waiting is said to help where it does not",
    end,
    file,
    "fits ? endOfPeriod(period, now) : null",
    "endOfPeriod(period, now)",
  ),
  plant(
    "the end of the month is that of the day",
    end,
    file,
    "date.getUTCDate() + 1) : Date.UTC(year, month + 1, 1)",
    "date.getUTCDate() + 1) : Date.UTC(year, month, date.getUTCDate() + 1)",
  ),
]
