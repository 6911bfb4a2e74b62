package cli

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/proxy"
	"dappco.re/go/core/go-ratelimit/internal/settings"
	"dappco.re/go/core/go-ratelimit/internal/yamlfile"
)

// fileConfig is a file of --config: that of the library, with upstreams.
type fileConfig struct {
	ratelimit.Config
	Upstreams map[string]upstreamConfig `yaml:"upstreams"`
}

type upstreamConfig struct {
	URL      string `yaml:"url"`
	KeyEnv   string `yaml:"key_env"`   // the variable of the environment with its key
	NoRefund bool   `yaml:"no_refund"` // it charges by max_tokens, as OpenAI does
}

// UnmarshalText reads an upstream that is its address alone.
func (u *upstreamConfig) UnmarshalText(address []byte) error {
	u.URL = string(address)
	return nil
}

// readConfig reads the file of --config; no path is an empty one.
func readConfig(path string) (fileConfig, error) {
	var read fileConfig
	if path == "" {
		return read, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return read, usagef("--config: %w", err)
	}
	defer file.Close()
	if err = yamlfile.DecodeConfig(file, &read); err != nil {
		return read, usagef("--config: %s: %w", path, err)
	}
	return read, nil
}

// upstreamsOf returns the upstreams of the file and of the flags, which win.
func (f *proxyFlags) upstreamsOf(file fileConfig) ([]*proxy.Upstream, error) {
	said := maps.Clone(file.Upstreams)
	if said == nil {
		said = make(map[string]upstreamConfig)
	}
	flags := make(map[string]bool)
	for _, text := range f.upstreams {
		name, address, named := strings.Cut(text, "=")
		if !named || strings.Contains(name, "/") {
			name, address = "", text
		}
		if flags[name] {
			return nil, usagef("--upstream %s: another one has the same name: want NAME=URL for each of several", text)
		}
		flags[name] = true
		of := said[name]
		of.URL = address
		said[name] = of
	}
	for _, text := range f.keyEnvs {
		name, variable, named := strings.Cut(text, "=")
		if !named {
			name, variable = "", text
		}
		if !named && len(said) == 1 {
			name = slices.Collect(maps.Keys(said))[0]
		}
		of, ok := said[name]
		if !ok {
			return nil, usagef("--key-env %s: which upstream is meant? want NAME=VARIABLE", text)
		}
		of.KeyEnv = variable
		said[name] = of
	}
	if len(said) == 0 {
		return nil, usagef("--upstream: where should calls go? For instance --upstream https://api.openai.com")
	}
	var all []*proxy.Upstream
	for _, name := range slices.Sorted(maps.Keys(said)) {
		u, err := proxy.NewUpstream(name, said[name].URL)
		if err != nil {
			return nil, usageError{err}
		}
		u.NoRefund = said[name].NoRefund
		if variable := said[name].KeyEnv; variable != "" {
			if u.Key = strings.TrimSpace(os.Getenv(variable)); u.Key == "" {
				return nil, usagef("--key-env: the variable %s is empty", variable)
			}
		}
		all = append(all, u)
	}
	return all, nil
}

// secret returns the secret of this installation, and makes it at the first time. It lies beside
// the shared file, so that all who share that name accounts alike.
func (f *proxyFlags) secret(cfg ratelimit.Config) ([]byte, error) {
	path := f.secretFile
	if path == "" {
		_, db, err := settings.Place("sqlite", cmp.Or(f.shared.file, cfg.FilePath))
		if err != nil {
			return nil, err
		}
		path = db + ".secret"
	}
	secret, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeSecret(path); err == nil {
			secret, err = os.ReadFile(path)
		}
	}
	if err == nil && len(secret) != secretSize {
		err = usagef("--secret-file: %s has %d bytes, want %d", path, len(secret), secretSize)
	}
	return secret, err
}

const secretSize = 32

// makeSecret makes a file with a secret, unless another process does so at the same time.
func makeSecret(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "secret-") // which only the user may read
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	secret := make([]byte, secretSize)
	rand.Read(secret)
	_, err = file.Write(secret)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err = os.Link(file.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
