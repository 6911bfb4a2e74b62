package ratelimit

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/profile"
)

// Provider names a provider of models. The constants below are the providers that have a profile;
// Profile, and what takes providers by name, refuse others with ErrUnknownProvider.
type Provider string

// The known providers. docs/providers.md has what is known of each: for some that is only how
// they count, because they publish no figures.
const (
	ProviderGemini     Provider = "gemini"     // Google's Gemini API
	ProviderOpenAI     Provider = "openai"     // the OpenAI API
	ProviderAnthropic  Provider = "anthropic"  // the Anthropic API
	ProviderGroq       Provider = "groq"       // GroqCloud
	ProviderMistral    Provider = "mistral"    // Mistral's API
	ProviderXAI        Provider = "xai"        // the API of xAI
	ProviderDeepSeek   Provider = "deepseek"   // DeepSeek's API, which limits open requests
	ProviderAzure      Provider = "azure"      // Azure OpenAI, whose limits belong to your deployments
	ProviderBedrock    Provider = "bedrock"    // Amazon Bedrock
	ProviderVertex     Provider = "vertex"     // Vertex AI of Google Cloud
	ProviderCerebras   Provider = "cerebras"   // Cerebras Inference
	ProviderOpenRouter Provider = "openrouter" // OpenRouter, which limits its free models
	// ProviderLocal is inference on your own hardware (Ollama, MLX, llama.cpp), without quotas.
	ProviderLocal Provider = "local"
)

// ProviderProfile is a provider with the quotas of its models at one tier.
type ProviderProfile struct {
	Provider Provider
	// Models are the quotas by name; in a pattern "*" stands for any run of bytes.
	Models map[string]ModelQuota

	Tier string // one of Tiers, "" for a provider without any
	// Counting says how the provider counts, in the words that docs/providers.md explains, such
	// as "keeps max_tokens", "input only" or "cache reads free".
	Counting []string
	Sources  map[string]ProfileSource // where each of Models comes from; its keys are those of Models

	// Pools are limits of the whole account that hold only if the program puts them into
	// Config.Pools or calls SetPool: they limit spend, so a model without a price would be refused.
	// Nil for none. docs/providers.md has where they come from.
	Pools map[string]Pool
}

// ProfileSource says where and when a quota of a profile was read, which may be out of date.
type ProfileSource struct {
	Tier     string    // the tier for which the quota was read, "" where the source names none
	Group    string    // models of one group share a bucket at the provider, and are a Pool; "" if each has its own
	URL      string    // the page, or another name of the source
	ReadOn   time.Time // midnight UTC of the day it was read
	Counting []string  // how the provider counts what the quota limits

	// Confidence is "published" for a figure of the provider's own page, "measured" for one of its
	// refusals, "second-hand" for one that others read there, "source document" for the oldest.
	Confidence string
}

// Profile returns what a provider allows at one of its Tiers. The tier "" is the lowest paid one; a
// model for which it has no figure then has that of the lowest paid tier by the names that the
// provider used before, if there is one. Upper and lower case are the same, and "Tier 1" is "1". A
// provider without known figures has a profile without models. The caller may change it. An error
// wraps ErrUnknownProvider, or names the tiers that exist. Profile is safe for concurrent use.
func Profile(provider Provider, tier string) (ProviderProfile, error) {
	is, err := profile.Builtin().At(string(provider), tier)
	if err != nil {
		return ProviderProfile{}, fmt.Errorf("profile: %w", err)
	}
	return makeProfile(&is), nil
}

// Tiers returns the names of a provider's tiers, the lowest first; those by which the provider
// called them before follow in the same order. It returns nil where none are known. Tiers is safe
// for concurrent use.
func Tiers(provider Provider) []string {
	p := profile.Builtin().Provider(string(provider))
	if p == nil || len(p.Tiers) == 0 {
		return nil
	}
	return p.TierNames()
}

// DefaultProfiles returns the built-in profiles of all known providers, a fresh map at each call,
// which the caller may change. Config.Providers and AddProvider use it.
//
// Each has the models of Profile(provider, ""). Those of Gemini, OpenAI and Anthropic also have
// 14 models with the figures of February 2026, which stay as they are; see Sources. The limits
// depend on the account: look up yours, and set them in Config.Quotas or by SetQuota.
func DefaultProfiles() map[Provider]ProviderProfile {
	all := make(map[Provider]ProviderProfile)
	for _, name := range profile.Builtin().Names() {
		is, _ := profile.Choose(name, nil)
		all[Provider(name)] = makeProfile(&is)
	}
	return all
}

// profiles returns the profiles that the limiter begins with.
func (cfg *Config) profiles() ([]profile.Chosen, error) {
	providers := cfg.Providers
	if providers == nil && len(cfg.Quotas) == 0 {
		providers = []Provider{ProviderGemini}
	}
	return profile.ChooseAll(providers, cfg.Tiers)
}

// makeProfile copies a profile.
func makeProfile(is *profile.Chosen) ProviderProfile {
	made := ProviderProfile{
		Provider: Provider(is.Name), Tier: is.Tier, Counting: profile.Words(is.Counting),
		Models: make(map[string]ModelQuota, len(is.Rows)), Sources: make(map[string]ProfileSource, len(is.Rows)),
	}
	for name, row := range is.Rows {
		made.Models[name] = ModelQuota(row.Limits.Quota())
		made.Sources[name] = ProfileSource(is.SourceOf(row, is.Tier))
	}
	for name, row := range is.PoolsAt(is.Tier) {
		if made.Pools == nil {
			made.Pools = make(map[string]Pool)
		}
		made.Pools[name] = Pool{Models: slices.Clone(row.Models), Quota: ModelQuota(row.Limits.Quota())}
	}
	return made
}

// StaleProfileError tells Config.OnError that a model was decided on by a quota of a profile that
// is older than 90 days. It comes once a process for each provider; [RateLimiter.Health] has it for
// each model. Set your account's own limits to be rid of it: see package accountlimits.
type StaleProfileError struct {
	Provider Provider
	Model    string    // the model, as it is counted
	ReadOn   time.Time // midnight UTC of the day the quota was read
	URL      string    // where
}

// Error names the model and the day its quota was read.
func (e *StaleProfileError) Error() string {
	return fmt.Sprintf("the quota of %q is that of the profile %q, which was read on %s: look up your account's limits, and set them",
		e.Model, e.Provider, e.ReadOn.Format(time.DateOnly))
}

// addProfileLocked takes over the quotas of a profile.
func (rl *RateLimiter) addProfileLocked(p *profile.Chosen, now account.Now) {
	is := rl.loaded.Take(p)
	zones := make([]string, len(is.Rows))
	for i := range is.Rows {
		zones[i] = is.Rows[i].Quota.DayZone
	}
	rl.sayLocked(byProfile, now, engine.AddProfile{Profile: is}, zones...)
}

// toldStale has the providers of which the process was told that their quotas are old, and those
// whose prices are.
var toldStale sync.Map

// checkAgeRLocked reports a model that is decided on by an old quota of a profile. Methods call it
// where the model has no usage yet, or something had to be brought in order.
func (rl *RateLimiter) checkAgeRLocked(counted string) {
	if rl.reporter == nil || !rl.loaded.HasQuotas() {
		return
	}
	q, ok := rl.loaded.Behind(counted, rl.engine.Catalog)
	if !ok || !q.IsOld(rl.clock.At(rl.clock.Now())) {
		return
	}
	if _, told := toldStale.LoadOrStore(q.Provider, true); !told {
		rl.reporter.ReportAs(q.Provider, staleProfile(&q, counted))
	}
}

func staleProfile(q *profile.Quota, counted string) *StaleProfileError {
	return &StaleProfileError{Provider(q.Provider), counted, q.ReadOn, q.URL}
}
