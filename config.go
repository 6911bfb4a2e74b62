package ratelimit

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/former"
	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/notice"
	"dappco.re/go/core/go-ratelimit/internal/profile"
	"dappco.re/go/core/go-ratelimit/internal/settings"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/store/sqlitelog"
	"dappco.re/go/core/go-ratelimit/internal/yamlfile"
	"dappco.re/go/core/go-ratelimit/money"
)

// Config says how to make a RateLimiter. Its zero value, which New uses, is YAML in the default
// file with the quotas of Gemini. In YAML each field has its name in snake case: see [ReadConfig].
// OnError, Events and Store are not in YAML. No number and no duration may be negative.
type Config struct {
	// FilePath is the state file. Empty means ratelimits.yaml (ratelimits.db with SQLite) in the
	// folder .core of the first of CORE_HOME, HOME and USERPROFILE that is set in the environment.
	FilePath string `yaml:"file_path,omitempty"`
	// Backend is the kind of state file: "yaml", the default, or "sqlite", in any case.
	Backend string                `yaml:"backend,omitempty"`
	Quotas  map[string]ModelQuota `yaml:"quotas,omitempty"` // limits per model; they win over those of Providers
	// Pools are limits that several models share, by name: see [Pool]. They win over Providers'.
	Pools map[string]Pool `yaml:"pools,omitempty"`
	// Providers are those whose default profiles are loaded; Gemini if nil and without Quotas.
	// Empty and not nil is none, for a program that joins the quotas which others have said
	// (Shared, Store). A name without a profile is an error (ErrUnknownProvider).
	Providers []Provider `yaml:"providers,omitempty"`
	// Tiers are the tiers of Providers, as [Profile] takes them, in place of their default
	// profiles, also for AddProvider. It is an error to name the tier of another provider.
	Tiers map[Provider]string `yaml:"tiers,omitempty"`
	// Unknown says what happens to a model for which no quota stands (UnknownAllow if zero), and to
	// a call that nothing counts (EventUncounted). OnError gets an *UnknownModelError either way.
	Unknown UnknownPolicy `yaml:"unknown,omitempty"`
	// Margin is how much longer than a minute every charge counts, because a provider counts a call
	// only when it arrives; 250 ms covers most. At most 24 hours.
	Margin time.Duration `yaml:"margin,omitempty"`

	// AutoPersist writes the state file after changes, in the background. With it the constructor
	// loads the file, and fails as Load does; Close writes unsaved changes. From the first call
	// that changes something on, the program must not change the maps Quotas and State.
	AutoPersist AutoPersist `yaml:"auto_persist,omitempty"`
	// OnError gets the errors of AutoPersist and of a shared database, which the limiter retries
	// without a report of the success; *UnknownModelError and *StaleProfileError; and those of
	// AddProvider, SetAccountQuotas, SetPool and SetClasses. It is called without locks, on a
	// goroutine of its own, one call at a time. Of other errors with the same number (of the system
	// or the database) or the same type, it gets at most one a second; the rest is dropped.
	//
	// OnError may call the limiter, also Close, which does not wait for it: a call in progress may
	// end after Close. The error of Close's own last write is returned and not reported here. Nil
	// writes the errors to slog.Default() as warnings, at most one a minute of each number or type.
	OnError func(error) `yaml:"-"`

	// Events is told what the limiter does: see EventHandler and EventHandlers. Only what the calls
	// of this limiter do is told, not what other processes do. Close is followed by nothing.
	Events EventHandler `yaml:"-"`

	// Shared makes the database of the SQLite backend one quota for all limiters, in all processes
	// of the machine, that open it with Shared. Every admission, settlement, cooldown, reset and
	// change of a quota is written there before the call returns, and the others see it. State then
	// shows what all have, and must only be read. AutoPersist does nothing. The constructor loads
	// the file. Quotas that programs have said there, also by Quotas, win over profiles.
	//
	// It is an error with YAML, and on file systems whose locks do not work (NFS, SMB, 9p and the
	// like). False, the default, keeps a private copy: see [RateLimiter.Persist].
	Shared bool `yaml:"shared,omitempty"`
	// Store makes this limiter one with those on other machines whose Store leads to the same
	// place, as Shared does on one machine: see [Store]. Every admission is decided with theirs
	// before the call returns; CanSend, Decide and Stats answer from memory that is a little older.
	// LeaseTTL, FailClosed, FreshStart, OnError and [RateLimiter.Err] mean the same as with Shared;
	// AutoPersist does nothing. Times that the limiter tells are those of the store's clock. A
	// Store beside Shared, FilePath, Backend, Durability or NewWithSQLiteConfig is an error.
	Store Store `yaml:"-"`
	// Durability says what a written change survives with Shared: "process", the default, the death
	// of the process; "power" also the loss of power, for which every change waits for the disk.
	Durability string `yaml:"durability,omitempty"`
	// LeaseTTL bounds, with Shared, how long a process keeps its slots without renewing its lease,
	// where the system cannot tell whether it lives. Zero means 10 seconds; the least is 100 ms.
	LeaseTTL time.Duration `yaml:"lease_ttl,omitempty"`
	// FailClosed denies everything with DecisionStoreError while the shared database or the store
	// cannot be used. Else this process goes on with its share of the quota: see [RateLimiter.Err].
	FailClosed bool `yaml:"fail_closed,omitempty"`
	// FreshStart begins a shared database or a store that replaces one which cannot be read any
	// more without usage. Else each limit counts as used up for a minute and LeaseTTL.
	FreshStart bool `yaml:"fresh_start,omitempty"`

	// HoldTTL settles an open reservation at its estimate that long after its admission, and frees
	// its slot; a later Commit does nothing. It must be longer than any call. Zero is never.
	HoldTTL time.Duration `yaml:"hold_ttl,omitempty"`
	// MaxQueue bounds the waiters per model, with Shared those of all processes; further callers
	// get ErrQueueFull. Zero is no bound.
	MaxQueue int `yaml:"max_queue,omitempty"`
	// Classes say how calls that wait share what becomes free: see [Class] and [WithClass]. Calls
	// without a class, or of a name that is not here, are of the class "", which has weight 1
	// unless it is here. There are at most 100 classes, with names of at most 100 bytes of UTF-8.
	// With Shared and Store the classes are written there, and apply until another process sets
	// others. Nil, the default, is none: all calls wait in one line, where flows take turns.
	Classes map[string]Class `yaml:"classes,omitempty"`
	// MatchVersions counts a dated or prefixed name together with the model whose quota it matches,
	// such as "gpt-4o-2024-08-06" with "gpt-4o", in all methods but SetQuota. See
	// [RateLimiter.QuotaFor]. Else a model whose exact name has no quota is not limited.
	MatchVersions bool `yaml:"match_versions,omitempty"`
	// Aliases map names of models to the name under which they are counted, which several may
	// share. An alias of an alias is not followed.
	Aliases map[string]string `yaml:"aliases,omitempty"`
	// Prices are what models cost: for the spend in stats, events and [RateLimiter.Audit], and for
	// the limits of spend in quotas. A model has the price of its counted name, else of the name
	// that the caller uses, else, with MatchVersions, of the name of which it is a version, else of
	// the longest pattern that covers it, else of "*". Under llmhttp.Route the caller's name has
	// the backend in it, such as "eu/gpt-4o". The zero price is that of a free model. Where a quota
	// limits spend, a model without a price here has the built-in one, if there is one. Prices are
	// neither saved nor shared: see [RateLimiter.SetPrice].
	Prices map[string]money.Price `yaml:"prices,omitempty"`
	// NoPrices leaves out the built-in prices, those that providers published for their models. One
	// that is older than 90 days is told to OnError, as a *StalePriceError.
	NoPrices bool `yaml:"no_prices,omitempty"`
	// Unpriced says what happens to a call of a model without a price where spend is limited.
	Unpriced UnpricedPolicy `yaml:"unpriced,omitempty"`
	// LearnQuotas lets [RateLimiter.Observe] correct quotas by the limits that providers report
	// with their answers. What the program or the account set is never exceeded; the quotas of
	// profiles and files follow the provider, and a model without a quota gets one. False leaves
	// quotas as they are, and takes no corrections from a file.
	LearnQuotas bool `yaml:"learn_quotas,omitempty"`
	// MaxModels bounds the models without a quota of their own that hold state: those that only the
	// quota "*" covers, and those without any. At the bound, the least recently used model with
	// nothing that counts is forgotten. If there is none, another model is denied under "*"
	// (DecisionTooManyModels); without any quota it is allowed and not counted. Zero means 10,000.
	MaxModels int `yaml:"max_models,omitempty"`
}

// Store makes limiters on many machines one: those whose stores lead to the same place decide as
// one limiter would that did all of it. Module redisstore has one for Redis and Valkey. Only
// modules of this library can implement it. A Store starts nothing before a limiter opens it. It
// may serve several limiters, and is safe for concurrent use.
type Store = store.Store

// New returns a limiter with the quotas of Gemini that keeps its state in the default YAML file.
// It does not load the file: see [RateLimiter.Load]. It fails when no home folder is known.
func New() (*RateLimiter, error) { return NewWithConfig(Config{}) }

// NewWithConfig returns a limiter made as cfg says. It loads the state file only with
// Config.AutoPersist or Config.Shared: see [RateLimiter.Load].
//
// It fails when cfg has an unknown backend, a field out of range, or a quota that is not valid
// (ErrInvalidQuota); when FilePath is empty and no home folder is known; with AutoPersist when the
// file cannot be loaded; and, with SQLite, as [NewWithSQLiteConfig] does.
func NewWithConfig(cfg Config) (*RateLimiter, error) {
	if cfg.Store != nil {
		return made(newShared(cfg.Store, cfg))
	}
	backend, path, err := settings.Place(cfg.Backend, cfg.FilePath)
	switch {
	case err != nil:
		return made(nil, err)
	case backend == settings.SQLite:
		return NewWithSQLiteConfig(path, cfg)
	case cfg.Shared:
		return made(nil, fmt.Errorf("%s is true, want the backend %q", "Shared", settings.SQLite))
	}
	return made(newPrivate(&cfg, func(s *storage) error {
		s.path = fsx.Absolute(path)
		// Persist makes the folder: a program that never calls it leaves nothing behind.
		fsx.SweepTemps(s.path)
		return nil
	}))
}

// made returns what a constructor returns.
func made(rl *RateLimiter, err error) (*RateLimiter, error) {
	if err != nil {
		return nil, fmt.Errorf("new limiter: %w", err)
	}
	return rl, nil
}

// NewWithSQLite returns a limiter with the quotas of Gemini that keeps its state in the SQLite
// database at dbPath. It fails as [NewWithSQLiteConfig] does.
func NewWithSQLite(dbPath string) (*RateLimiter, error) {
	return NewWithSQLiteConfig(dbPath, Config{})
}

// NewWithSQLiteConfig returns a limiter that keeps its state in the SQLite database at dbPath, a
// path and never a connection string. It creates a missing database, readable only for its owner.
// Backend and FilePath of cfg are ignored. The state is loaded only with Config.AutoPersist or
// Config.Shared: see [RateLimiter.Load]. Close the limiter when it is no longer needed.
//
// It fails like [NewWithConfig], when the database cannot be opened, and with ErrCorruptState when
// the file is damaged, of another program, or of a newer version of this one; such a file is left
// as it is. With Config.Shared it also fails where locks do not work or the file belongs to another
// user; a damaged file is renamed and reported to OnError. With the tag nosqlite it is ErrNoSQLite.
func NewWithSQLiteConfig(dbPath string, cfg Config) (*RateLimiter, error) {
	switch {
	case cfg.Store != nil:
		return made(nil, fmt.Errorf("Store and the database %q are both set, want one of them", dbPath))
	case cfg.Shared && sqlitestate.Enabled:
		var learned map[string]state.Answers // by processes of an earlier version
		rl, err := newShared(&sqlitelog.Store{
			Path: dbPath, Durability: cfg.Durability,
			TakeOver: former.SQLite(func(all map[string]state.Answers) { learned = all }),
		}, cfg)
		if err == nil {
			rl.answers.Merge(learned, rl.mostModels())
		}
		return made(rl, err)
	}
	return made(newPrivate(&cfg, func(s *storage) error {
		db, err := sqlitestate.Open(dbPath, sqlitelog.Private)
		s.sqlite = &sqliteStore{db: db, models: sqlitestate.NewUnsaved()}
		return err
	}))
}

// newPrivate returns a limiter whose state is in a storage of its own, which open opens.
func newPrivate(cfg *Config, open func(*storage) error) (*RateLimiter, error) {
	rl, profiles, err := newUnconfigured(cfg)
	if err != nil {
		return nil, err
	}
	rl.configureLocked(cfg, profiles)
	if err = open(&rl.storage); err == nil {
		err = rl.storage.startSaver(rl, cfg.AutoPersist)
	}
	if err != nil {
		rl.storage.sqlite.close()
		return nil, err
	}
	rl.teller.begin()
	return rl, nil
}

// newUnconfigured returns a limiter without quotas, and the profiles that it begins with.
func newUnconfigured(cfg *Config) (*RateLimiter, []profile.Chosen, error) {
	if err := cfg.validate(); err != nil {
		return nil, nil, err
	}
	profiles, err := cfg.profiles()
	if err != nil {
		return nil, nil, err
	}
	rl := &RateLimiter{
		Quotas: make(map[string]ModelQuota),
		State:  make(map[string]*UsageStats),

		naming:   catalog.Names{Aliases: maps.Clone(cfg.Aliases), MatchVersions: cfg.MatchVersions},
		terms:    terms{margin: cfg.Margin, holdTTL: cfg.HoldTTL, maxQueue: cfg.MaxQueue, maxModels: cfg.MaxModels},
		learns:   cfg.LearnQuotas,
		unknown:  cfg.Unknown,
		tiers:    maps.Clone(cfg.Tiers),
		reporter: notice.NewReporter(cfg.OnError),
		pricing:  catalog.NewPrices(cfg.Prices, cfg.Unpriced == UnpricedFree),
		noPrices: cfg.NoPrices,
	}
	rl.teller = newTeller(rl, cfg.Events)
	return rl, profiles, nil
}

// configureLocked says what a Config says. Nobody else knows the limiter yet.
func (rl *RateLimiter) configureLocked(cfg *Config, profiles []profile.Chosen) {
	now := rl.nowLocked()
	if len(cfg.Classes) > 0 {
		rl.setClassesLocked(cfg.Classes, now)
	}
	for i := range profiles {
		rl.addProfileLocked(&profiles[i], now)
	}
	for _, model := range slices.Sorted(maps.Keys(cfg.Quotas)) {
		q := cfg.Quotas[model]
		rl.sayLocked(byProgram, now, engine.SetQuota{Counted: state.ModelName(model), Quota: state.Quota(q)}, q.DayZone)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Pools)) {
		pool := cfg.Pools[name]
		set := engine.SetPool{Counted: state.PoolName(name), Models: pool.Models, Quota: state.Quota(pool.Quota)}
		rl.sayLocked(byProgram, now, set, pool.Quota.DayZone)
	}
	rl.leaveLocked(now)
}

// validate returns an error that names the first field that is out of range, and its value.
func (cfg *Config) validate() error {
	options := settings.Options{
		Margin: cfg.Margin, HoldTTL: cfg.HoldTTL, MaxQueue: cfg.MaxQueue, MaxModels: cfg.MaxModels,
		LeaseTTL: cfg.LeaseTTL, Durability: cfg.Durability, AutoPersist: settings.AutoPersist(cfg.AutoPersist),
		Store: cfg.Store != nil, Shared: cfg.Shared, FilePath: cfg.FilePath, Backend: cfg.Backend,
	}
	_, unknown := cfg.Unknown.MarshalText()
	_, unpriced := cfg.Unpriced.MarshalText()
	return cmp.Or(options.Validate(), state.ValidateClasses(storedClasses(cfg.Classes)), inField("Unknown", unknown), validatePools(cfg.Pools),
		inField("Unpriced", unpriced), inField("Prices", catalog.ValidatePrices(cfg.Prices)), state.ValidateAll(storedQuotas(cfg.Quotas)))
}

// inField returns an error with the name of its field; nil for none.
func inField(name string, err error) error {
	if err != nil {
		return fmt.Errorf("field %s: %w", name, err)
	}
	return nil
}

// ReadConfig reads a Config from YAML, in which each field has its name in snake case, such as
// file_path or quotas. Durations have a unit, as in "margin: 250ms". What the text does not name
// is zero, so an empty text is the zero Config. yaml.Marshal writes what ReadConfig reads.
//
// An unknown key, or a value of another type, such as a duration without a unit, is an error that
// names the key and its line. A value out of range is one that names the field and the value; a
// quota's wraps ErrInvalidQuota, an unknown provider's ErrUnknownProvider. More than 1 MiB, a
// second document, anchors, aliases and duplicate keys are errors, too.
func ReadConfig(r io.Reader) (Config, error) {
	var cfg Config
	err := yamlfile.DecodeConfig(r, &cfg)
	if err == nil {
		_, backend := settings.ParseBackend(cfg.Backend)
		_, profiles := cfg.profiles()
		err = cmp.Or(backend, cfg.validate(), profiles)
	}
	if err != nil {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	return cfg, nil
}
