import { type EmbeddedEngine, jobKind } from "@kiln/core"
import { z } from "zod"

export interface Team {
  readonly name: string
  /** An IANA name. */
  readonly timeZone: string
  readonly members: ReadonlyArray<string>
}

/** The parts of the program that a test replaces. */
export interface Tools {
  readonly findTeam: (name: string) => Promise<Team | undefined>
  /** Returns what is new for a team. */
  readonly headlines: (team: string) => Promise<ReadonlyArray<string>>
  readonly sendMail: (to: string, text: string) => Promise<void>
}

/** Mails a team its headlines. Each result is kept as a step, so a retry mails only the members who are still waiting. */
export const digestKind = ({ findTeam, headlines, sendMail }: Tools) =>
  jobKind({
    name: "digest",
    request: z.strictObject({ team: z.string() }),
    output: z.object({ mails: z.int() }),
    metadata: ["team"],
    errorCodes: { team_unknown: "No team has this name." },
    limits: { maxFailures: 5, attemptTimeoutMs: 60_000 },
    retry: { backoff: { baseMs: 60_000, maxMs: 600_000 } },
    run: async ({ failure, request, step }) => {
      const team = await findTeam(request.team)
      if (team === undefined) throw failure("team_unknown", { message: "the team has been removed" })
      // A step, so that all members get the same digest, whatever is published between two attempts.
      const lines = await step("headlines", async () => [...(await headlines(team.name))])
      if (lines.length === 0) return { output: { mails: 0 } }
      for (const member of team.members)
        await step(`mail-${member}`, async () => {
          await sendMail(member, lines.join("\n"))
          return true
        })
      return { output: { mails: team.members.length } }
    },
  })

type DigestEngine = EmbeddedEngine<ReturnType<typeof digestKind>>

/** Seven o'clock on weekdays in the team's time zone. */
const mornings = ({ timeZone }: Team) => ({ cron: "0 7 * * mon-fri", timeZone })

/**
 * Sets the schedule of each team and removes those of other teams. Every process calls it when it starts: a schedule that has not
 * changed stays as it is.
 */
export const syncDigests = async (
  { schedules }: DigestEngine,
  teams: ReadonlyArray<Team>,
  times: (team: Team) => { readonly cron: string; readonly timeZone: string } | { readonly everyMs: number } = mornings,
): Promise<void> => {
  const nameOf = ({ name }: Team): string => `digest:${name}`
  for (const team of teams)
    await schedules.set(nameOf(team), { kind: "digest", request: { team: team.name }, ...times(team) })
  const wanted = new Set(teams.map(nameOf))
  for (const { name } of await schedules.list())
    if (name.startsWith("digest:") && !wanted.has(name)) await schedules.remove(name)
}
