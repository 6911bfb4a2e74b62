package profile

// Rule is a word for how a provider counts, one of those below.
type Rule string

// The rules.
const (
	KeepsMaxTokens       Rule = "keeps max_tokens"
	InputOnly            Rule = "input only"
	OutputAsProduced     Rule = "output as produced"
	CacheReadsFree       Rule = "cache reads free"
	CacheReadsCount      Rule = "cache reads count"
	FailedRequestsCount  Rule = "failed requests count"
	OutputTimesFive      Rule = "output times 5"
	ChecksSeconds        Rule = "per second"
	ChecksTenSeconds     Rule = "per ten seconds"
	CountsConcurrency    Rule = "concurrency"
	SharesCapacity       Rule = "shared capacity"
	CountsByAccount      Rule = "per account"
	CountsByProject      Rule = "per project"
	CountsByOrganization Rule = "per organization"
)

// Meanings says what each rule means, in a sentence for docs/providers.md.
var Meanings = map[Rule]string{
	KeepsMaxTokens:       "A request's maximum output counts from its admission.",
	InputOnly:            "Tokens per minute are input tokens.",
	OutputAsProduced:     "Output counts when produced; the maximum does not matter.",
	CacheReadsFree:       "Cached input does not count.",
	CacheReadsCount:      "Cached input counts like any other.",
	FailedRequestsCount:  "Failed requests count, too.",
	OutputTimesFive:      "Output of the Claude 4 models counts five times.",
	ChecksSeconds:        "A 48th of the requests per minute may come in one second.",
	ChecksTenSeconds:     "A sixth of the requests per minute may come in ten seconds.",
	CountsConcurrency:    "Open requests count, not those in a time.",
	SharesCapacity:       "Nothing is promised: a refusal may mean that all capacity is used up.",
	CountsByAccount:      "All models of a row share the account's limits.",
	CountsByProject:      "Limits hold for a project with all its keys.",
	CountsByOrganization: "Limits hold for an organization with all its keys.",
}
