package ratelimit

import "time"

// snapshot is quotas, usage and cooldowns as the file has them.
type snapshot struct {
	quotas    map[string]ModelQuota
	state     map[string]*UsageStats
	cooldowns map[string]time.Time
}

func newSnapshot() *snapshot {
	return &snapshot{
		quotas:    make(map[string]ModelQuota),
		state:     make(map[string]*UsageStats),
		cooldowns: make(map[string]time.Time),
	}
}
