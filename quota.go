package ratelimit

import (
	"fmt"
	"maps"
	"slices"
)

// ModelQuota is what a provider allows one model. A zero field is unlimited,
// so the zero value limits nothing. A negative field is invalid: constructors
// and Load refuse it, and SetQuota with one admits nothing until it is put right.
type ModelQuota struct {
	MaxRPM int `yaml:"max_rpm"` // requests per minute
	MaxTPM int `yaml:"max_tpm"` // tokens per minute, prompt and output together
	MaxRPD int `yaml:"max_rpd"` // requests per day
}

func (q ModelQuota) unlimited() bool { return q == ModelQuota{} }

// invalid returns the first field that is out of range, by its name in Go, its
// name in files, and its value.
func (q ModelQuota) invalid() (field, key string, value int, bad bool) {
	switch {
	case q.MaxRPM < 0:
		return "MaxRPM", "max_rpm", q.MaxRPM, true
	case q.MaxTPM < 0:
		return "MaxTPM", "max_tpm", q.MaxTPM, true
	case q.MaxRPD < 0:
		return "MaxRPD", "max_rpd", q.MaxRPD, true
	}
	return "", "", 0, false
}

// validate returns an error that wraps ErrInvalidQuota when the quota of model
// has a field out of range.
func (q ModelQuota) validate(model string) error {
	if field, key, value, bad := q.invalid(); bad {
		return fmt.Errorf("%w: model %q: %s (%s) is %d, want 0 or more",
			ErrInvalidQuota, clip(model), field, key, value)
	}
	return nil
}

func validateQuotas(quotas map[string]ModelQuota) error {
	for _, model := range slices.Sorted(maps.Keys(quotas)) {
		if err := quotas[model].validate(model); err != nil {
			return err
		}
	}
	return nil
}

// clip shortens a name that goes into an error: it may come from a file that
// nobody checked.
func clip(name string) string {
	const most = 128
	if len(name) > most {
		return name[:most] + "…"
	}
	return name
}

// SetQuota sets the quota of one model, now and over whatever a file or a
// profile says. The zero quota makes it unlimited. With a negative limit
// nothing is admitted for the model, and Decide says so with
// DecisionInvalidQuota.
//
// Whoever waits in WaitForCapacity is served by the new quota at once. SetQuota
// is safe for concurrent use.
func (rl *RateLimiter) SetQuota(model string, quota ModelQuota) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	if rl.Quotas == nil {
		rl.Quotas = make(map[string]ModelQuota)
	}
	rl.Quotas[model] = quota
	delete(rl.supplied, model)
	rl.announceLocked()
}

// AddProvider adds the quotas of a provider's default profile to those already
// there, and replaces those of the models that both name, whoever said them. From
// then on they are those of a profile: the next Load may replace them by the
// file's. An unknown provider changes nothing.
//
// Whoever waits in WaitForCapacity is served by the new quotas at once.
// AddProvider is safe for concurrent use.
func (rl *RateLimiter) AddProvider(provider Provider) {
	profile, ok := DefaultProfiles()[provider]
	if !ok {
		return
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.supplyLocked(profile.Models)
	rl.announceLocked()
}

// supplyLocked sets quotas that the program did not say itself: they come from
// a profile or a file. A later file may replace them.
func (rl *RateLimiter) supplyLocked(quotas map[string]ModelQuota) {
	if rl.Quotas == nil {
		rl.Quotas = make(map[string]ModelQuota, len(quotas))
	}
	if rl.supplied == nil {
		rl.supplied = make(map[string]ModelQuota, len(quotas))
	}
	maps.Copy(rl.Quotas, quotas)
	maps.Copy(rl.supplied, quotas)
}

// mergeFile takes over the quotas of a file, except for models whose
// quota the program said itself: by Config.Quotas, by SetQuota, or in the
// Quotas map, where it shows as a value that was not supplied.
func (rl *RateLimiter) mergeFile(quotas map[string]ModelQuota) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.supplyLocked(nil) // makes the maps
	turn := rl.takeTurnLocked()
	for model, quota := range quotas {
		current, exists := rl.Quotas[model]
		supplied, wasSupplied := rl.supplied[model]
		if !exists || wasSupplied && current == supplied {
			rl.Quotas[model], rl.supplied[model] = quota, quota
		}
		turn.nextLocked()
	}
}
