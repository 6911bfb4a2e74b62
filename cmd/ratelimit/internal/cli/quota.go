package cli

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/proxy"
	"dappco.re/go/core/go-ratelimit/money"
)

// quotaFlags are the flags of the quota.
type quotaFlags struct {
	config        string
	profiles      []string
	rpm, tpm, rpd int
	inFlight      int
	learn         bool
	strict        bool
	maxCost       string
	classes       []string
}

func (q *quotaFlags) addFlags(flags *pflag.FlagSet) {
	q.addLimits(flags)
	flags.BoolVar(&q.learn, "learn", false, "take the limits that the provider reports with its answers")
	flags.StringArrayVar(&q.classes, "class", nil, "`NAME=WEIGHT` of a class that calls may name, or NAME=ahead;\nmay be repeated (default interactive=ahead, batch=1)")
}

// addLimits adds the flags of limits alone.
func (q *quotaFlags) addLimits(flags *pflag.FlagSet) {
	flags.StringVar(&q.config, "config", "", "`file` of quotas, pools, classes, prices and upstreams, as docs/program.md has it")
	flags.StringArrayVar(&q.profiles, "profile", nil, "`[NAME=]PROVIDER[/TIER]` whose quotas hold for the upstream; may be repeated")
	flags.IntVar(&q.rpm, "rpm", 0, "`requests` a minute, for each model without a quota of its own")
	flags.IntVar(&q.tpm, "tpm", 0, "`tokens` a minute, likewise")
	flags.IntVar(&q.rpd, "rpd", 0, "`requests` a day, likewise")
	flags.IntVar(&q.inFlight, "in-flight", 0, "`calls` at a time, likewise")
	flags.BoolVar(&q.strict, "strict", false, "refuse calls that no quota limits, or that nothing can count")
	flags.StringVar(&q.maxCost, "max-cost-per-day", "", "`dollars` that all calls of a day may cost")
}

// joins reports whether no quota is said, so that those of the shared state hold.
func (q *quotaFlags) joins() bool {
	return q.config == "" && len(q.profiles) == 0 && q.rpm == 0 && q.tpm == 0 && q.rpd == 0 && q.inFlight == 0 && q.maxCost == ""
}

// defaultClasses are there unless the operator names others: people go ahead of what runs in bulk,
// and while they ask, a quarter of each limit is theirs.
var defaultClasses = map[string]ratelimit.Class{
	"interactive": {Ahead: true, ReservePercent: 25},
	"batch":       {},
}

// budgetPool is the pool of --max-cost-per-day.
const budgetPool = "budget"

// configOf returns the limiter's configuration: that of the file, with what the flags say.
func (q *quotaFlags) configOf(cfg ratelimit.Config, upstreams []*proxy.Upstream, perKey bool, log *slog.Logger) (ratelimit.Config, error) {
	if q.rpm < 0 || q.tpm < 0 || q.rpd < 0 || q.inFlight < 0 {
		return cfg, usagef("--rpm, --tpm, --rpd and --in-flight: must not be negative")
	}
	cfg.Quotas, cfg.Pools, cfg.Classes = maps.Clone(cfg.Quotas), maps.Clone(cfg.Pools), maps.Clone(cfg.Classes)
	if cfg.Quotas == nil {
		cfg.Quotas = make(map[string]ratelimit.ModelQuota)
	}
	if cfg.Pools == nil {
		cfg.Pools = make(map[string]ratelimit.Pool)
	}
	cfg.MatchVersions = cfg.MatchVersions || q.config == ""
	cfg.LearnQuotas = cfg.LearnQuotas || q.learn
	if q.strict {
		cfg.Unknown = ratelimit.UnknownDeny
	}
	if (ratelimit.ModelQuota{MaxRPM: q.rpm, MaxTPM: q.tpm, MaxRPD: q.rpd, MaxInFlight: q.inFlight}) != (ratelimit.ModelQuota{}) {
		all := cfg.Quotas["*"]
		for _, set := range []struct {
			to   *int
			flag int
		}{{&all.MaxRPM, q.rpm}, {&all.MaxTPM, q.tpm}, {&all.MaxRPD, q.rpd}, {&all.MaxInFlight, q.inFlight}} {
			if set.flag > 0 {
				*set.to = set.flag
			}
		}
		cfg.Quotas["*"] = all
	}
	if err := q.addProfiles(&cfg, upstreams, perKey, log); err != nil {
		return cfg, err
	}
	if err := q.addBudget(&cfg); err != nil {
		return cfg, err
	}
	if err := q.addClasses(&cfg); err != nil {
		return cfg, err
	}
	if len(cfg.Quotas)+len(cfg.Providers) == 0 {
		if len(cfg.Pools) == 0 && !cfg.LearnQuotas && !q.strict {
			log.Warn("calls are NOT limited, unless another program of this quota limits them: give --rpm, --tpm, --profile, --config or --learn")
		}
		cfg.Providers = []ratelimit.Provider{} // else the limiter has the quotas of Gemini
	}
	underName(&cfg, upstreams, log)
	if perKey {
		addAccounts(&cfg, upstreams)
	}
	return cfg, nil
}

// versionsBehind has versions of names no more looked for by the limiter, but by
// proxy.CountedBehind, which knows what stands before a name. It returns what that asks; nil where
// nobody wants versions.
func versionsBehind(cfg *ratelimit.Config) (hasQuota func(name string) bool) {
	if !cfg.MatchVersions {
		return nil
	}
	cfg.MatchVersions = false
	quotas := cfg.Quotas
	return func(name string) bool { _, ok := quotas[name]; return ok }
}

// addProfiles adds the quotas of profiles. Those of an only upstream stay profiles, whose quotas
// follow the provider with --learn. Else the names of models have others before them, and so have
// their quotas.
func (q *quotaFlags) addProfiles(cfg *ratelimit.Config, upstreams []*proxy.Upstream, perKey bool, log *slog.Logger) error {
	for _, text := range q.profiles {
		name, said, named := strings.Cut(text, "=")
		if !named {
			said = text
		}
		provider, tier, _ := strings.Cut(said, "/")
		profile, err := ratelimit.Profile(ratelimit.Provider(provider), strings.TrimPrefix(strings.ToLower(tier), "tier"))
		if err != nil {
			if profile, err = ratelimit.Profile(ratelimit.Provider(provider), tier); err != nil {
				return usagef("--profile %s: %w", text, err)
			}
		}
		if !named {
			name = provider
		}
		prefix := ""
		if len(upstreams) > 1 {
			if !hasName(upstreams, name) {
				return usagef("--profile %s: no upstream is named %q: want NAME=PROVIDER/TIER", text, name)
			}
			prefix = name + "/"
		}
		if prefix != "" || perKey {
			if left := addProfile(cfg, &profile, prefix, !perKey); left {
				log.Warn("--per-key: limits that models share are not kept", "profile", text)
			}
			continue
		}
		cfg.Providers = append(cfg.Providers, profile.Provider)
		if cfg.Tiers == nil {
			cfg.Tiers = make(map[ratelimit.Provider]string)
		}
		cfg.Tiers[profile.Provider] = profile.Tier
	}
	return nil
}

// addProfile adds the quotas of a profile with a prefix, and a pool for each group of models that
// share one at the provider. Where pools cannot be, it reports that it left any out.
func addProfile(cfg *ratelimit.Config, profile *ratelimit.ProviderProfile, prefix string, pools bool) (left bool) {
	groups := make(map[string][]string)
	for model, quota := range profile.Models {
		if _, ok := cfg.Quotas[prefix+model]; !ok {
			cfg.Quotas[prefix+model] = quota
		}
		if group := profile.Sources[model].Group; group != "" {
			groups[group] = append(groups[group], model)
		}
	}
	for group, models := range groups {
		name := prefix + group
		if _, ok := cfg.Pools[name]; ok || len(models) == 1 && !strings.Contains(models[0], "*") {
			continue
		}
		if !pools {
			left = true
			continue
		}
		pool := ratelimit.Pool{Quota: profile.Models[models[0]]}
		for _, model := range models {
			pool.Models = append(pool.Models, prefix+model)
		}
		cfg.Pools[name] = pool
	}
	return left
}

func hasName(upstreams []*proxy.Upstream, name string) bool {
	return slices.ContainsFunc(upstreams, func(u *proxy.Upstream) bool { return u.Name == name })
}

// addBudget adds the pool of all models that limits what a day costs.
func (q *quotaFlags) addBudget(cfg *ratelimit.Config) error {
	if q.maxCost == "" {
		return nil
	}
	var amount money.Amount
	if err := amount.UnmarshalText([]byte("$" + strings.TrimPrefix(q.maxCost, "$"))); err != nil || amount <= 0 {
		return usagef("--max-cost-per-day %s: want dollars, such as 5 or 12.50", q.maxCost)
	}
	cfg.Pools[budgetPool] = ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxSpendPerDay: amount}}
	return nil
}

// addClasses adds the classes that calls may name.
func (q *quotaFlags) addClasses(cfg *ratelimit.Config) error {
	if len(q.classes) == 0 {
		if cfg.Classes == nil {
			cfg.Classes = defaultClasses
		}
		return nil
	}
	if cfg.Classes == nil {
		cfg.Classes = make(map[string]ratelimit.Class)
	}
	for _, text := range q.classes {
		name, said, ok := strings.Cut(text, "=")
		class := cfg.Classes[name]
		switch weight, err := positive(said); {
		case !ok || name == "":
			return usagef("--class %s: want NAME=WEIGHT or NAME=ahead", text)
		case said == "ahead":
			class.Ahead = true
		case err != nil:
			return usagef("--class %s: %w", text, err)
		default:
			class.Weight = weight
		}
		cfg.Classes[name] = class
	}
	return nil
}

// underName puts what the file says of models under the names by which they are counted. Those of
// an only upstream may have its name before them, as they have once there are several. Those that
// no call can have are told.
func underName(cfg *ratelimit.Config, upstreams []*proxy.Upstream, log *slog.Logger) {
	if len(upstreams) > 1 {
		for name := range cfg.Quotas {
			upstream, _, _ := strings.Cut(name, "/")
			if !strings.Contains(upstream, "*") && !hasName(upstreams, upstream) {
				log.Warn("no call has this quota: want UPSTREAM/MODEL", "quota", name)
			}
		}
		return
	}
	prefix := upstreams[0].Name + "/"
	if prefix == "/" {
		return
	}
	withoutPrefix(cfg.Quotas, prefix)
	cfg.Prices = maps.Clone(cfg.Prices)
	withoutPrefix(cfg.Prices, prefix)
	for name, pool := range cfg.Pools {
		pool.Models = slices.Clone(pool.Models)
		for i := range pool.Models {
			pool.Models[i] = strings.TrimPrefix(pool.Models[i], prefix)
		}
		cfg.Pools[name] = pool
	}
}

func withoutPrefix[V any](values map[string]V, prefix string) {
	for name, value := range maps.Clone(values) {
		if bare, ok := strings.CutPrefix(name, prefix); ok {
			delete(values, name)
			values[bare] = value
		}
	}
}

// addAccounts adds a quota and a price for the accounts of keys beside each of a model, which is
// like it, and the accounts to the pools, which hold for all keys together.
func addAccounts(cfg *ratelimit.Config, upstreams []*proxy.Upstream) {
	addAccountsTo(cfg.Quotas, upstreams)
	cfg.Prices = maps.Clone(cfg.Prices)
	addAccountsTo(cfg.Prices, upstreams)
	for name, pool := range cfg.Pools {
		pool.Models = slices.Clone(pool.Models)
		for _, model := range cfg.Pools[name].Models {
			if of := ofAccounts(model, upstreams); of != "" {
				pool.Models = append(pool.Models, of)
			}
		}
		cfg.Pools[name] = pool
	}
}

func addAccountsTo[V any](values map[string]V, upstreams []*proxy.Upstream) {
	for name, value := range maps.Clone(values) {
		if of := ofAccounts(name, upstreams); of != "" {
			values[of] = value
		}
	}
}

// ofAccounts returns the pattern for a model under all keys; empty for a name that covers them.
func ofAccounts(name string, upstreams []*proxy.Upstream) string {
	prefix, model := "", name
	if len(upstreams) > 1 {
		upstream, rest, ok := strings.Cut(name, "/")
		if !ok || !hasName(upstreams, upstream) {
			return "" // a pattern over all
		}
		prefix, model = upstream+"/", rest
	}
	if model == "*" {
		return ""
	}
	return prefix + "key-*/" + model
}

// positive reads a whole number above zero.
func positive(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is no whole number above zero", text)
	}
	return n, nil
}
