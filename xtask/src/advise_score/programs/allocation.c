// Many small allocations.
#include "common.h"

struct node {
	struct node *next;
	ulong64 value;
};

int main(void)
{
	ulong64 state = SEED | 1;
	other_work();
	for (long round = 0; round < ROUNDS * 20L; round++) {
#if VARIANT == 0
		char *all[64] = {0};
		for (int i = 0; i < 4000; i++) {
			int at = next_random(&state) >> 20 & 63;
			free(all[at]);
			all[at] = malloc(16 + (state >> 30) % SIZE);
			all[at][0] = i;
		}
		for (int i = 0; i < 64; i++)
			free(all[i]);
#elif VARIANT == 1
		struct node *list = 0;
		for (int i = 0; i < 3000; i++) {
			struct node *node = malloc(sizeof *node);
			*node = (struct node){list, i};
			list = node;
		}
		while (list) {
			struct node *next = list->next;
			result += list->value;
			free(list);
			list = next;
		}
#else
		for (int i = 0; i < 3000; i++) {
			char *text = strdup("a name that is copied for no reason");
			result += text[i % 30];
			free(text);
		}
#endif
	}
	printf("%lu\n", result);
}
