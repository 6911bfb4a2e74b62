package ratelimit

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

// Config says how to make a RateLimiter. Its zero value is what New uses: YAML
// in the default file, with the quotas of Gemini.
type Config struct {
	// FilePath is the state file. Empty means ratelimits.yaml (ratelimits.db
	// with SQLite) in the folder .core of the home folder, which is the first of
	// the environment variables CORE_HOME, HOME and USERPROFILE that is set.
	FilePath string
	// Backend is how the state is kept: "yaml", the default, or "sqlite". Case
	// and surrounding space do not matter.
	Backend string
	// Quotas are limits per model. They win over those of Providers.
	Quotas map[string]ModelQuota
	// Providers are the providers whose default profiles are loaded. Names
	// without a profile are passed over. Without Providers and Quotas it is
	// Gemini's.
	Providers []Provider
	// Margin keeps every charge of the minute counted that much longer than a
	// minute. A provider counts a call when it arrives, which is later than the
	// moment at which it was recorded here, by as much as the network takes;
	// 250 ms covers most. Zero, the default, is a minute exactly. It must not be
	// negative nor over 24 hours.
	Margin time.Duration

	// AutoPersist writes the state file after changes, so that nobody has to call
	// Persist. With it the constructor loads the file, too, and fails as Load does;
	// and Close writes what is left. From the first call that changes something, the
	// program must not change the maps Quotas and State any more: they are read in
	// the background. The zero value is off: the program calls Load and Persist.
	AutoPersist AutoPersist
	// OnError is called when AutoPersist could not write, or a shared database could not
	// be used, which is tried again; it is not told when that succeeds. It is called without locks, on a goroutine
	// of its own, one call at a time, and for errors of the same number (of the
	// system or the database) or type at most once a second; those between are
	// dropped. It may call the limiter, also Close, which does not wait for it: a
	// call that was under way then may still end later. The error of the last write of
	// AutoPersist, in Close, is returned there only. Nil is for programs that do not want to know.
	OnError func(error)

	// Shared makes the database of the SQLite backend one quota for all limiters, in all
	// processes of the machine, that open it with Shared. Every admission, settlement,
	// cooldown, reset and change of a quota is written there before the call returns, and
	// seen by the others. State is then a cache that must only be read, and AutoPersist
	// does nothing, because there is nothing left to write. The constructor loads the
	// file. What it says of quotas wins over default profiles; Quotas are written there,
	// and win until another process says otherwise.
	//
	// It is an error with YAML, and on file systems whose locks do not work (NFS, SMB, 9p
	// and the like). False, the default, keeps a private copy: see [RateLimiter.Persist].
	Shared bool
	// Durability says what a change that was written survives, with Shared: "process",
	// the default, the death of the process; "power" also that of the machine, at the
	// price of waiting for the disk at every change.
	Durability string
	// LeaseTTL is, with Shared, how long a process of which the system cannot tell whether
	// it died is believed to live without giving notice, before others get its slots.
	// Zero, the default, means 10 seconds, and less than 100 ms means that; it must not be
	// negative.
	LeaseTTL time.Duration
	// FailClosed denies everything with DecisionStoreError while the shared database
	// cannot be used. False, the default, goes on with what this process knows: see
	// [RateLimiter.Err].
	FailClosed bool
	// FreshStart lets a shared database that takes the place of a damaged one begin
	// unused. False, the default, takes the minute for used, until it has passed,
	// because nobody knows what was.
	FreshStart bool

	// HoldTTL settles a reservation at its estimate that long after it was
	// admitted, if nobody has by then, and frees its slot; a Commit after that does
	// nothing. It must be longer than the longest call. Zero, the default, is never; it must not be negative.
	HoldTTL time.Duration
	// MaxQueue is how many may wait for one model, in Acquire, AcquireAll and
	// WaitForCapacity together, with Shared in all processes; who comes then is refused with ErrQueueFull. Zero, the default, is no cap; it must not be negative.
	MaxQueue int
	// MatchVersions makes all methods but SetQuota take a model for the one whose
	// quota it is a version of, as "gpt-4o-2024-08-06" is of "gpt-4o": the two then
	// are counted together. See [RateLimiter.QuotaFor]. False, the default, takes
	// names as they are, and a model whose name is not exactly that of a quota is
	// not limited.
	MatchVersions bool
	// Aliases map names of models onto the name that they are counted under, which
	// several may share. An alias of an alias is not followed.
	Aliases map[string]string
	// LearnQuotas lets [RateLimiter.Observe] correct quotas by the limits that providers
	// tell with their answers. What the program said itself, in Quotas, with SetQuota or
	// in the map of the limiter, is never raised above that; the quotas of profiles and
	// files are taken for guesses, and follow. A model without a quota gets one. False,
	// the default, leaves quotas as they are.
	LearnQuotas bool
	// MaxModels is how many models without a quota of their own may hold state:
	// those that only the quota "*" covers, and those without any. When there are
	// that many, the one used least recently goes of those with nothing that
	// counts. If there is none, another model is denied under "*"
	// (DecisionTooManyModels), and is allowed and not counted without any quota.
	// Zero, the default, means 10,000; it must not be negative.
	MaxModels int
}

// defaultMaxModels is Config.MaxModels where nothing is said.
const defaultMaxModels = 10_000

const (
	backendYAML   = "yaml"
	backendSQLite = "sqlite"
)

// New returns a limiter with the quotas of Gemini that keeps its state in the
// default YAML file. It does not load the file: see [RateLimiter.Load]. It
// fails when no home folder is known.
func New() (*RateLimiter, error) { return NewWithConfig(Config{}) }

// NewWithConfig returns a limiter made as cfg says. It loads the state file only
// with Config.AutoPersist or Config.Shared: see [RateLimiter.Load].
//
// It fails when cfg has an unknown backend, a field out of range, or a quota with
// a negative limit or an unknown zone (ErrInvalidQuota); when FilePath is empty and
// no home folder is known; with AutoPersist when the file cannot be loaded; and,
// with SQLite, as [NewWithSQLiteConfig] does.
func NewWithConfig(cfg Config) (*RateLimiter, error) {
	backend := strings.ToLower(strings.TrimSpace(cfg.Backend))
	switch backend {
	case "":
		backend = backendYAML
	case backendYAML, backendSQLite:
	default:
		return nil, fmt.Errorf("new limiter: %w: %q, want %q or %q",
			errUnknownBackend, cfg.Backend, backendYAML, backendSQLite)
	}
	path := cfg.FilePath
	if path == "" {
		var err error
		if path, err = defaultPath(backend); err != nil {
			return nil, fmt.Errorf("new limiter: %w", err)
		}
	}
	if backend == backendSQLite {
		return NewWithSQLiteConfig(path, cfg)
	}
	if cfg.Shared {
		return nil, fmt.Errorf("new limiter: Shared is true, want the backend %q", backendSQLite)
	}
	rl, err := newLimiter(cfg)
	if err != nil {
		return nil, err
	}
	rl.filePath = fsx.Absolute(path)
	// A program that never calls Persist may run where it cannot write, so a
	// folder that cannot be made is for Persist to report.
	if os.MkdirAll(filepath.Dir(rl.filePath), 0o700) == nil {
		fsx.SweepTemps(rl.filePath)
	}
	if err := rl.startSaver(cfg.AutoPersist, cfg.OnError); err != nil {
		return nil, fmt.Errorf("new limiter: %w", err)
	}
	return rl, nil
}

// NewWithSQLite returns a limiter with the quotas of Gemini that keeps its
// state in the SQLite database at dbPath. It fails as [NewWithSQLiteConfig]
// does.
func NewWithSQLite(dbPath string) (*RateLimiter, error) {
	return NewWithSQLiteConfig(dbPath, Config{})
}

// NewWithSQLiteConfig returns a limiter that keeps its state in the SQLite
// database at dbPath, which it creates where it is missing, readable only for
// its owner. Backend and FilePath of cfg are ignored. dbPath is a path, never a
// connection string. The state is loaded only with Config.AutoPersist or
// Config.Shared: see [RateLimiter.Load]. Close the limiter when it is no longer needed.
//
// It fails like [NewWithConfig], when the database cannot be opened, and with
// ErrCorruptState when the file is damaged, of another program, or of a newer
// version of this one; such a file is left as it is. With Config.Shared it fails, too,
// where locks do not work or the file belongs to another user; a damaged file is given
// another name, and OnError is told.
func NewWithSQLiteConfig(dbPath string, cfg Config) (*RateLimiter, error) {
	rl, err := newLimiter(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Shared {
		if err := openLedger(rl, dbPath, cfg); err != nil {
			return nil, fmt.Errorf("new limiter: %w", err)
		}
		return rl, nil
	}
	if rl.sqlite, err = openSQLite(dbPath); err != nil {
		return nil, fmt.Errorf("new limiter: %w", err)
	}
	if err := rl.startSaver(cfg.AutoPersist, cfg.OnError); err != nil {
		rl.sqlite.close()
		return nil, fmt.Errorf("new limiter: %w", err)
	}
	return rl, nil
}

// longestSpan is the longest minute that a limiter may have, with the longest margin.
const longestSpan = minute + day

func newLimiter(cfg Config) (*RateLimiter, error) {
	if cfg.Margin < 0 || minute+int64(cfg.Margin) > longestSpan {
		return nil, fmt.Errorf("new limiter: margin is %v, want 0 to 24h", cfg.Margin)
	}
	for _, field := range []struct {
		name  string
		value int64
	}{
		{"HoldTTL", int64(cfg.HoldTTL)},
		{"MaxQueue", int64(cfg.MaxQueue)},
		{"MaxModels", int64(cfg.MaxModels)},
		{"LeaseTTL", int64(cfg.LeaseTTL)},
	} {
		if field.value < 0 {
			return nil, fmt.Errorf("new limiter: %s is %d, want 0 or more", field.name, field.value)
		}
	}
	switch cfg.Durability {
	case "", durableProcess, durablePower:
	default:
		return nil, fmt.Errorf("new limiter: Durability is %q, want %q or %q", cfg.Durability, durableProcess, durablePower)
	}
	if err := cfg.AutoPersist.validate(); err != nil {
		return nil, fmt.Errorf("new limiter: %w", err)
	}
	if err := validateQuotas(cfg.Quotas); err != nil {
		return nil, fmt.Errorf("new limiter: %w", err)
	}
	rl := &RateLimiter{
		Quotas: make(map[string]ModelQuota),
		State:  make(map[string]*UsageStats),
		margin: cfg.Margin,

		naming:    naming{aliases: maps.Clone(cfg.Aliases), matchVersions: cfg.MatchVersions},
		maxQueue:  cfg.MaxQueue,
		maxModels: cfg.MaxModels,
		holdTTL:   cfg.HoldTTL,
		learns:    cfg.LearnQuotas,
	}
	providers := cfg.Providers
	if len(providers) == 0 && len(cfg.Quotas) == 0 {
		providers = []Provider{ProviderGemini}
	}
	profiles := DefaultProfiles()
	for _, provider := range providers {
		rl.supplyLocked(profiles[provider].Models)
	}
	for model, quota := range cfg.Quotas {
		rl.Quotas[model] = quota
		delete(rl.provenance.supplied, model)
	}
	rl.clock.Sync()
	return rl, nil
}

// defaultPath returns the state file of a backend in the home folder.
func defaultPath(backend string) (string, error) {
	name := "ratelimits.yaml"
	if backend == backendSQLite {
		name = "ratelimits.db"
	}
	for _, env := range []string{"CORE_HOME", "HOME", "USERPROFILE"} {
		if home := os.Getenv(env); home != "" {
			return filepath.Join(home, ".core", name), nil
		}
	}
	return "", errors.New("no home folder: set CORE_HOME, HOME or USERPROFILE, or Config.FilePath")
}
