"""The console's addresses as they are where company accounts are configured."""

from console.urls import COMPANY, handler403, handler404, handler500
from console.urls import urlpatterns as ours

urlpatterns = [*ours, *COMPANY]
__all__ = ["handler403", "handler404", "handler500", "urlpatterns"]
