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
	KeepsMaxTokens:       "The maximum output of a request counts from its admission.",
	InputOnly:            "Tokens per minute are input tokens.",
	OutputAsProduced:     "Output tokens count when they are produced; the maximum output does not matter.",
	CacheReadsFree:       "Input that the provider's cache serves does not count.",
	CacheReadsCount:      "Input that the provider's cache serves counts like any other.",
	FailedRequestsCount:  "Requests that fail count, too.",
	OutputTimesFive:      "An output token of the Claude 4 models counts five times.",
	ChecksSeconds:        "A 48th of the requests per minute may come in one second.",
	ChecksTenSeconds:     "A sixth of the requests per minute may come in ten seconds.",
	CountsConcurrency:    "Open requests count, not those of a time.",
	SharesCapacity:       "There is no promise: a refusal may say that the capacity of all customers is used up.",
	CountsByAccount:      "All models of a row share the limits of the account.",
	CountsByProject:      "The limits hold for a project, with all its keys.",
	CountsByOrganization: "The limits hold for an organization, with all its keys.",
}
