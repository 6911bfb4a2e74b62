package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// poolMark begins the counted name of a pool, and modelMark that of a model whose name is one of a
// pool or of the account that models share: so a caller can name neither by the name of a model.
const (
	modelMark = "\x1f"
	poolMark  = modelMark + "pool:"
)

// OtherAccount is the name of the account of spend that the models share for which there is no
// room.
const OtherAccount = modelMark + "other"

// PoolName returns the name under which a pool is counted, beside the names of models.
func PoolName(pool string) string { return poolMark + pool }

// PoolOf returns the pool that is counted under a name, if the name is that of a pool.
func PoolOf(name string) (pool string, is bool) {
	if !IsPool(name) {
		return "", false
	}
	return name[len(poolMark):], true
}

// IsPool reports whether a pool is counted under a name.
func IsPool(name string) bool {
	return len(name) >= len(poolMark) && name[0] == poolMark[0] && name[:len(poolMark)] == poolMark
}

// ModelName returns the name under which a model is counted that is called by a name: the same,
// unless something else is counted under it.
func ModelName(name string) string {
	if IsPool(name) || name == OtherAccount {
		return modelMark + name
	}
	return name
}

// IsMarked reports whether a name begins as those of pools and of OtherAccount do. ModelName
// returns any other name as it is.
func IsMarked(name string) bool { return name != "" && name[0] == modelMark[0] }

// CheckPool refuses the name and the members of a pool that no store can keep.
func CheckPool(name string, members []string) error {
	if name == "" {
		return errors.New("the name of the pool is empty")
	}
	for _, model := range members {
		if !utf8.ValidString(model) {
			return fmt.Errorf("pool %q: the model %q is not UTF-8", errtext.Clip(name), errtext.Clip(model))
		}
	}
	return nil
}

// poolText is what files and shared stores of before have of the members of a pool.
type poolText struct {
	Models []string `json:"models"`
	Gone   bool     `json:"gone,omitempty"` // it is no pool any more
}

// PoolText returns the names and patterns of the members of a pool as text.
func PoolText(models []string) string {
	p := poolText{Models: models}
	if models == nil {
		p.Models = []string{}
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it is of strings
	}
	return string(text)
}

// ParsePool is the reverse of PoolText. Shared stores of before also say that something is no pool
// any more. The error names what is wrong with the text.
func ParsePool(text string) (models []string, gone bool, err error) {
	var p poolText
	if err = DecodeStrictly(text, &p); err != nil {
		return nil, false, err
	}
	if p.Gone && len(p.Models) > 0 {
		return nil, false, errors.New("a pool that is gone has members")
	}
	return p.Models, p.Gone, nil
}

// ParseMembers is the reverse of PoolText.
func ParseMembers(text string) (models []string, err error) {
	models, gone, err := ParsePool(text)
	if err == nil && gone {
		err = errors.New("the pool is gone")
	}
	return models, err
}
